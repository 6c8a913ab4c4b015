//! Turns a frame into a request, applies the scripted faults and answers.

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::api::{ApiError, ApiResult};
use crate::connection::{Out, Role};
use crate::fault::{Fault, Reaction, reaction};
use crate::params::Params;
use crate::route::{self, Field};
use crate::state::{Call, WhatsAppState};

/// Largest frame, in bytes.
const FRAME_LIMIT: usize = 1 << 20;
/// Closes a client that sends a larger frame.
const TOO_BIG: u16 = 1009;

impl WhatsAppState {
    /// Handles a text frame of a client.
    pub(crate) fn handle_frame(&mut self, connection: usize, text: &str) {
        let Some(open) = self.connections.get(&connection) else {
            return;
        };
        if open.is_leaving {
            return;
        }
        if text.len() > FRAME_LIMIT {
            self.complain("a frame of more than 1 MiB");
            return self.close(connection, TOO_BIG);
        }
        let role = open.role;
        let frame = serde_json::from_str(text).unwrap_or_default();
        // The call and its effect are one change: once a waiting test sees the call, the effect is
        // visible too.
        let fault = self.note(connection, &frame);
        let id = frame.get("requestId").and_then(Value::as_str);
        let instead = fault.as_ref().and_then(|fault| fault.instead(id));
        let reaction = match (instead, role) {
            (Some(instead), _) => instead,
            (None, None) => {
                self.handle_first(connection, &frame);
                Reaction::Nothing
            }
            (None, Some(Role::Version1)) => self.handle_version_1(&frame, fault),
            (None, Some(Role::Version2)) => self.react_to(connection, &frame, fault),
        };
        self.apply(connection, reaction);
        self.dispatch();
    }

    /// Records a frame, and takes the fault scripted for it.
    fn note(&mut self, connection: usize, frame: &Value) -> Option<Fault> {
        let text = |key| frame.get(key).and_then(Value::as_str).unwrap_or_default();
        self.calls.note(Call {
            method: text("type").to_owned(),
            request_id: text("requestId").to_owned(),
            body: frame.clone(),
            connection,
            at: Instant::now(),
        })
    }

    fn apply(&mut self, connection: usize, reaction: Reaction) {
        match reaction {
            Reaction::Answer(text) => self.send_out(connection, Out::Text(text)),
            Reaction::Hold(text) => self.held.push((connection, text)),
            Reaction::Nothing => {}
            Reaction::Close(code) => self.close(connection, code),
            Reaction::Drop => {
                self.send_out(connection, Out::Drop);
                if let Some(open) = self.connections.get_mut(&connection) {
                    open.is_leaving = true;
                }
            }
        }
    }

    pub(crate) fn send_out(&mut self, connection: usize, out: Out) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.outbox.push_back(out);
        }
    }

    fn react_to(&mut self, connection: usize, frame: &Value, fault: Option<Fault>) -> Reaction {
        let Some(members) = frame.as_object() else {
            self.complain("a frame that is no JSON object");
            return reaction(None, &Err(ApiError::invalid("no JSON object")));
        };
        let id = members.get("requestId").and_then(Value::as_str);
        let method = Params(members).text("type");
        let result = self.request(connection, method, members);
        if let Err(error) = &result {
            self.complaints.extend(error.complaint(method));
        }
        match fault {
            Some(fault) => {
                if matches!(fault, Fault::ErrorAfterEffect(_)) && method == "send" {
                    self.sent_ids
                        .retain(|known| known != Params(members).text("id"));
                }
                fault.afterwards(id, result)
            }
            None => reaction(id, &result),
        }
    }

    fn request(
        &mut self,
        connection: usize,
        method: &str,
        members: &Map<String, Value>,
    ) -> ApiResult {
        let Some(command) = route::find(method) else {
            return Err(ApiError::invalid("unknown type"));
        };
        let params = Params(members);
        self.check_part(method, "", params, command.fields)?;
        match method {
            "auth" => Err(ApiError::invalid("a second auth")),
            "ack" => self.acknowledge(params),
            "fetch" => self.fetch(params),
            "upload" => self.upload(connection, params),
            "send" => self.send_message(connection, params),
            "typing" => self.type_text(params),
            "read" => self.mark_read(params),
            "react" => self.react(params),
            other => Err(ApiError::invalid(other)),
        }
    }

    /// Checks members against a table, and records unknown ones.
    pub(crate) fn check_part(
        &mut self,
        method: &str,
        place: &str,
        params: Params<'_>,
        fields: &[Field],
    ) -> Result<(), ApiError> {
        for name in params.check(fields)? {
            let dot = if place.is_empty() { "" } else { "." };
            self.complain(format!("{method}: unknown member {place}{dot}{name}"));
        }
        Ok(())
    }
}
