//! Turns a frame into a command, applies the scripted faults and answers.

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::api::{ApiError, ApiResult, NOT_SUBSCRIBED, answer};
use crate::connection::Out;
use crate::fault::Reaction;
use crate::params::Params;
use crate::route;
use crate::state::{Call, WeComState};

impl WeComState {
    /// Handles a text frame from the client.
    pub(crate) fn handle_frame(&mut self, connection: usize, text: &str) {
        let Ok(Value::Object(frame)) = serde_json::from_str::<Value>(text) else {
            return self.complain("a frame that is no JSON object");
        };
        // The call and its effect are one change: once a waiting test sees the call, the effect is
        // visible too.
        match self.react(connection, &frame) {
            Reaction::Answer(text) => self.send_out(connection, Out::Text(text)),
            Reaction::Hold(text) => self.held.push((connection, text)),
            Reaction::Nothing => {}
            Reaction::Drop => {
                self.send_out(connection, Out::Drop);
                if let Some(open) = self.connections.get_mut(&connection) {
                    open.is_leaving = true;
                }
            }
        }
        // The answer to a subscription comes before the pushes that waited for it.
        self.dispatch();
    }

    fn react(&mut self, connection: usize, frame: &Map<String, Value>) -> Reaction {
        let log = self.next();
        let cmd = frame.get("cmd").and_then(Value::as_str).unwrap_or_default();
        self.check_form(cmd, frame);
        let req_id = frame
            .get("headers")
            .and_then(|headers| headers.get("req_id"));
        let req_id = req_id.and_then(Value::as_str).unwrap_or_default();
        let fault = self.calls.note(Call {
            method: cmd.to_owned(),
            req_id: req_id.to_owned(),
            body: frame.get("body").cloned().unwrap_or_default(),
            connection,
            at: Instant::now(),
        });
        let instead = fault.as_ref().and_then(|fault| fault.instead(req_id, log));
        if let Some(instead) = instead {
            return instead;
        }
        let result = self.command(connection, cmd, req_id, frame.get("body"));
        if let Err(error) = &result {
            self.complaints.extend(error.complaint(cmd));
        }
        match fault {
            Some(fault) => fault.afterwards(req_id, &result, log),
            None => Reaction::Answer(answer(req_id, &result, log).to_string()),
        }
    }

    /// Records unknown members of a frame.
    fn check_form(&mut self, cmd: &str, frame: &Map<String, Value>) {
        let known = ["cmd", "headers", "body"];
        let unknown = frame.keys().filter(|name| !known.contains(&name.as_str()));
        let headers = frame.get("headers").and_then(Value::as_object);
        let headers = headers.into_iter().flatten().map(|(name, _)| name);
        let all = unknown.chain(headers.filter(|name| *name != "req_id"));
        let complaints = all.map(|name| format!("{cmd}: unknown member {name}"));
        self.complaints.extend(complaints);
    }

    fn command(
        &mut self,
        connection: usize,
        cmd: &str,
        req_id: &str,
        body: Option<&Value>,
    ) -> ApiResult {
        let Some(command) = route::find(cmd) else {
            return Err(ApiError::parameter("unknown cmd"));
        };
        if req_id.is_empty() {
            return Err(ApiError::unreadable("missing field `headers.req_id`"));
        }
        let nothing = Map::new();
        let params = match body {
            None => Params(&nothing),
            Some(Value::Object(body)) => Params(body),
            Some(_) => return Err(ApiError::unreadable("invalid type of `body`")),
        };
        if cmd != "aibot_subscribe" {
            self.check_subscription(connection)?;
        }
        for name in params.check("body", command.body)? {
            self.complain(format!("{cmd}: unknown parameter {name}"));
        }
        match cmd {
            "aibot_subscribe" => self.subscribe(connection, params),
            "ping" => Ok(Value::Null),
            "aibot_respond_msg" => self.respond(req_id, params),
            "aibot_respond_welcome_msg" => self.welcome(req_id, params),
            "aibot_respond_update_msg" => self.update_card(req_id, params),
            "aibot_send_msg" => self.send_message(req_id, params),
            "aibot_upload_media_init" => self.begin_upload(params),
            "aibot_upload_media_chunk" => self.add_chunk(params),
            "aibot_upload_media_finish" => self.finish_upload(params),
            other => Err(ApiError::parameter(other)),
        }
    }

    /// Refuses commands of a connection that is not subscribed.
    fn check_subscription(&self, connection: usize) -> Result<(), ApiError> {
        let open = self.connections.get(&connection);
        match open {
            Some(open) if open.is_subscribed => Ok(()),
            // The gateway may forget a subscription, which is no fault of the client.
            Some(open) if open.was_subscribed => Err(ApiError::new(NOT_SUBSCRIBED)),
            _ => Err(ApiError::new(NOT_SUBSCRIBED).clumsy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::INVALID_REQ_ID;
    use crate::fault::Fault;
    use crate::probe::{FIRST, Probe};

    #[test]
    fn malformed_frames_are_refused_and_recorded() {
        let mut probe = Probe::new();
        probe.hear("hello");
        let whole = json!({
            "cmd": "aibot_send_msg", "headers": {"req_id": "a"},
            "body": {"chatid": "ann", "msgtype": "markdown", "markdown": {"content": "x"}},
        });
        let with = |place: &str, value: Value| {
            let mut frame = whole.clone();
            *frame.pointer_mut(place).unwrap() = value;
            frame
        };
        let refused = [
            with("/cmd", json!("aibot_fly")),
            with("/headers", json!({})),
            with("/body", json!([])),
            with("/body/chatid", json!(5)),
            with("/body/msgtype", json!("text")),
            with("/body/markdown", json!({})),
            with("/body/markdown/content", json!("")),
        ];
        for frame in refused {
            probe.state.handle_frame(FIRST, &frame.to_string());
            assert!(probe.frame()["errcode"] != 0, "{frame}");
            assert_eq!(probe.complaints().len(), 1, "{frame}");
        }
        for text in ["", "no json", "[]"] {
            probe.state.handle_frame(FIRST, text);
            assert_eq!(probe.outs(FIRST).len(), 0);
            assert_eq!(probe.complaints(), ["a frame that is no JSON object"]);
        }
        // Unknown members are ignored, but recorded.
        let mut odd = whole.clone();
        odd["extra"] = json!(1);
        odd["headers"]["extra"] = json!(1);
        odd["body"]["extra"] = json!(1);
        odd["body"]["image"] = json!({});
        odd["body"]["markdown"]["extra"] = json!(1);
        probe.state.handle_frame(FIRST, &odd.to_string());
        assert_eq!(probe.frame()["errcode"], 0);
        let expected = [
            "aibot_send_msg: unknown member extra",
            "aibot_send_msg: unknown member extra",
            "aibot_send_msg: unknown parameter extra",
            "aibot_send_msg: image in a message of another type",
            "aibot_send_msg: unknown parameter markdown.extra",
        ];
        assert_eq!(probe.complaints(), expected);
    }

    #[test]
    fn faults_apply_to_one_command() {
        let mut probe = Probe::new();
        probe.hear("hello");
        let body = json!({"chatid": "ann", "msgtype": "markdown", "markdown": {"content": "x"}});
        let table = [
            (Fault::RateLimited, json!(45_009), 0),
            (Fault::error(40_201), json!(40_201), 0),
            (Fault::ErrorWith(7, "odd".to_owned()), json!(7), 0),
            (
                Fault::Answer(json!({"errcode": "strange"})),
                json!("strange"),
                0,
            ),
            (Fault::Garbage("[]".to_owned()), json!(null), 0),
            (Fault::Hang, json!(null), 0),
            (Fault::ErrorAfterEffect(-1), json!(-1), 1),
            (Fault::HangAfterEffect, json!(null), 1),
            (Fault::Hold, json!(null), 1),
        ];
        for (fault, code, effect) in table {
            let before = probe.state.sent.len();
            probe.state.calls.fail_next("aibot_send_msg", fault);
            let answer = probe.call("aibot_send_msg", "a", &body);
            assert_eq!(answer.get("errcode").cloned().unwrap_or_default(), code);
            assert_eq!(probe.state.sent.len(), before + effect, "{code}");
        }
        assert_eq!(probe.state.held.len(), 1);
        assert_eq!(probe.code("aibot_send_msg", "a", &body), 0);
        for (fault, effect) in [(Fault::Drop, 0), (Fault::DropAfterEffect, 1)] {
            let mut probe = Probe::new();
            probe.hear("hello");
            probe.state.calls.fail_next("aibot_send_msg", fault);
            assert_eq!(probe.call("aibot_send_msg", "a", &body), "Drop");
            assert_eq!(probe.state.sent.len(), effect);
            assert!(!probe.state.connections[&FIRST].takes_pushes());
        }
    }

    #[test]
    fn forgotten_subscription_is_no_fault_of_the_client() {
        let mut probe = Probe::new();
        let open = probe.state.connections.get_mut(&FIRST).unwrap();
        (open.is_subscribed, open.was_subscribed) = (false, true);
        assert_eq!(probe.code("ping", "a", &json!({})), NOT_SUBSCRIBED);
        assert_eq!(probe.complaints(), Vec::<String>::new());
        let welcome = json!({"msgtype": "text", "text": {"content": "hi"}});
        assert_eq!(probe.subscribe(FIRST, crate::account::SECRET), 0);
        let code = probe.code("aibot_respond_welcome_msg", "unknown", &welcome);
        assert_eq!((code, probe.complaints().len()), (INVALID_REQ_ID, 1));
    }
}
