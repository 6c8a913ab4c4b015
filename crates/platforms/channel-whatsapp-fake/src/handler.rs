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
        // Answers of version 1 have no id.
        let id = id.filter(|_| role == Some(Role::Version2));
        let instead = fault.as_ref().and_then(|fault| fault.instead(role, id));
        let reaction = match (instead, role) {
            (Some(instead), _) => instead,
            (None, None) => {
                self.handle_first(connection, &frame);
                fault.map_or(Reaction::Nothing, |fault| {
                    fault.afterwards(None, Ok(Value::Null))
                })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::probe::{FIRST, GROUP, Probe, id};

    #[test]
    fn malformed_frames_are_refused_and_recorded() {
        let mut probe = Probe::new();
        for text in ["", "no json", "[]", "5", "null"] {
            probe.state.handle_frame(FIRST, text);
            let answer = probe.frame();
            assert_eq!(
                (&answer["code"], answer.get("requestId")),
                (&json!("invalid"), None)
            );
            assert_eq!(probe.complaints(), ["a frame that is no JSON object"]);
        }
        let wrong = [
            ("fly", json!({"requestId": "r1"})),
            ("fetch", json!({"ref": "m1-0"})),
            ("fetch", json!({"ref": "m1-0", "offset": -1})),
            ("upload", json!({"ref": "u1", "offset": "0", "data": ""})),
            ("react", json!({"to": GROUP, "id": "x"})),
        ];
        for (method, members) in wrong {
            let answer = probe.call(method, &members);
            assert_eq!(
                (&answer["code"], &answer["requestId"]),
                (&json!("invalid"), &json!("r1"))
            );
            assert_eq!(probe.complaints().len(), 1, "{method}");
        }
        assert_eq!(probe.code("auth", &json!({"token": "x"})), "invalid");
        assert_eq!(probe.complaints().len(), 1);
        // Unknown members are ignored, but recorded.
        probe.state.add_group(GROUP, true);
        let quote = json!({"id": "x", "odd": 1});
        let odd = json!({"id": id(1), "to": GROUP, "text": "x", "quote": quote, "odd": 1});
        assert_eq!(probe.code("send", &odd), "sent");
        let expected = ["send: unknown member odd", "send: unknown member quote.odd"];
        assert_eq!(probe.complaints(), expected);
    }

    #[test]
    fn large_frame_closes_the_connection() {
        let mut probe = Probe::new();
        probe.state.handle_frame(FIRST, &" ".repeat(FRAME_LIMIT));
        assert_eq!(probe.frame()["code"], "invalid");
        probe
            .state
            .handle_frame(FIRST, &" ".repeat(FRAME_LIMIT + 1));
        assert_eq!(probe.frame(), "Close(1009)");
        assert_eq!(probe.complaints().len(), 2);
    }

    #[test]
    fn faults_apply_to_one_frame() {
        let mut probe = Probe::new();
        probe.state.add_group(GROUP, true);
        let table = [
            (Fault::RateLimitedFor(3), json!("rate_limited"), 0),
            (Fault::error("forbidden"), json!("forbidden"), 0),
            (
                Fault::ErrorWith("odd".to_owned(), "text".to_owned()),
                json!("odd"),
                0,
            ),
            (Fault::Answer(json!({"code": 5})), json!(5), 0),
            (Fault::Garbage("{}".to_owned()), json!(null), 0),
            (Fault::Hang, json!(null), 0),
            (
                Fault::ErrorAfterEffect("failed".to_owned()),
                json!("failed"),
                1,
            ),
            (Fault::HangAfterEffect, json!(null), 1),
            (Fault::Hold, json!(null), 1),
        ];
        for (number, (fault, code, effect)) in (0..).zip(table) {
            let before = probe.state.sent.len();
            probe.state.calls.fail_next("send", fault);
            let message = json!({"id": id(number), "to": GROUP, "text": "x"});
            let answer = probe.call("send", &message);
            assert_eq!(answer.get("code").cloned().unwrap_or_default(), code);
            assert_eq!(probe.state.sent.len(), before + effect, "{code}");
        }
        assert_eq!(probe.state.held.len(), 1);
        for (fault, end, effect) in [
            (Fault::Drop, "Drop", 0),
            (Fault::DropAfterEffect, "Drop", 1),
            (Fault::Close(4000), "Close(4000)", 0),
        ] {
            let mut probe = Probe::new();
            probe.state.add_group(GROUP, true);
            probe.state.calls.fail_next("send", fault);
            let message = json!({"id": id(1), "to": GROUP, "text": "x"});
            assert_eq!(probe.call("send", &message), end);
            assert_eq!(probe.state.sent.len(), effect);
            assert!(!probe.state.connections[&FIRST].is_client());
        }
    }

    #[test]
    fn fault_of_the_first_frame_leaves_the_client_waiting() {
        let mut probe = Probe::without_client(Role::Version2);
        probe.state.calls.fail_next("auth", Fault::Hang);
        assert_eq!(probe.connect(Some(2)).1, Vec::<Value>::new());
        probe.state.calls.fail_next("auth", Fault::Close(1013));
        assert_eq!(probe.connect(Some(2)).1, ["Close(1013)"]);
        assert_eq!(probe.connect(Some(2)).1[0]["type"], "ready");
    }
}
