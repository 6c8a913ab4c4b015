//! Version 1 of the protocol: the bridge of the Python program, or a client that speaks it.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::connection::Role;
use crate::fault::{Fault, Reaction};
use crate::jid;
use crate::params::Params;
use crate::state::WhatsAppState;

/// Members of a message that version 1 has, too.
const MEMBERS: [&str; 6] = ["id", "sender", "pn", "content", "timestamp", "isGroup"];

/// Returns a message as a client of version 1 gets it: without files, whose kind replaces a missing
/// text.
pub(crate) fn message(frame: &Value) -> Value {
    let mut message = json!({"type": "message"});
    for name in MEMBERS {
        set(
            &mut message,
            name,
            frame.get(name).cloned().unwrap_or_default(),
        );
    }
    let kind = frame.pointer("/media/0/kind").and_then(Value::as_str);
    if let Some(kind) = kind
        && frame.get("content").is_some_and(|content| content == "")
    {
        let text = match kind {
            "voice" => "[Voice Message]".to_owned(),
            kind => format!("[{kind}]"),
        };
        set(&mut message, "content", text);
    }
    message
}

impl WhatsAppState {
    /// Handles a frame of a client of version 1. Answers have no `requestId`.
    pub(crate) fn handle_version_1(&mut self, frame: &Value, fault: Option<Fault>) -> Reaction {
        let result = self.request_of_version_1(frame);
        let answer = match &result {
            Ok(frame) => Ok(frame.clone()),
            Err(error) => Ok(error.frame_of_version_1()),
        };
        match fault {
            Some(fault) => fault.afterwards(None, answer),
            None => crate::fault::reaction(None, &answer),
        }
    }

    fn request_of_version_1(&mut self, frame: &Value) -> ApiResult {
        let Some(params) = frame.as_object().map(Params) else {
            self.complain("a frame of version 1 that is no JSON object");
            return Err(ApiError::invalid("no JSON object"));
        };
        if params.text("type") == "send" {
            return self.send_of_version_1(params);
        }
        // The Python program's bridge does not refuse what it does not know.
        if self.serves == Role::Version2 {
            return Err(ApiError::invalid("unknown type"));
        }
        let mut sent = json!({"type": "sent"});
        if let Some(to) = params.0.get("to") {
            set(&mut sent, "to", to.clone());
        }
        Ok(sent)
    }

    fn send_of_version_1(&mut self, params: Params<'_>) -> ApiResult {
        let (to, text) = (params.text("to"), params.text("text"));
        if !jid::is_chat(to) || text.is_empty() {
            self.complain("send: to or text of version 1");
            return Err(ApiError::invalid("to or text"));
        }
        self.link.check()?;
        let chat = self.addressed(to)?;
        let id = self.next_id("3EB0");
        self.keep(&id, &chat, to, text, Value::Null, Vec::new());
        Ok(json!({"type": "sent", "to": to}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::{FIRST, GROUP, Probe, ann};

    fn request(probe: &mut Probe, frame: &Value) -> Value {
        probe.state.handle_frame(FIRST, &frame.to_string());
        probe.frame()
    }

    #[test]
    fn bridge_of_version_1_answers_sent_to_anything() {
        let mut probe = Probe::without_client(Role::Version1);
        assert_eq!(probe.connect(Some(2)).1, Vec::<Value>::new());
        // It serves any number of clients.
        assert_eq!(probe.connect(Some(2)).1, Vec::<Value>::new());
        probe.state.add_group(GROUP, true);
        let send = json!({"type": "send", "to": GROUP, "text": "hello", "requestId": "r1"});
        assert_eq!(
            request(&mut probe, &send),
            json!({"type": "sent", "to": GROUP})
        );
        let upload = json!({"type": "upload", "requestId": "r1", "ref": "u1"});
        assert_eq!(request(&mut probe, &upload), json!({"type": "sent"}));
        let typing = json!({"type": "typing", "to": GROUP, "active": true});
        assert_eq!(
            request(&mut probe, &typing),
            json!({"type": "sent", "to": GROUP})
        );
        assert_eq!(probe.texts(), ["hello"]);
        let error = request(
            &mut probe,
            &json!({"type": "send", "to": "8@g.us", "text": "x"}),
        );
        assert_eq!((&error["type"], error.get("code")), (&json!("error"), None));
        assert_eq!(probe.complaints(), Vec::<String>::new());
        for frame in [
            json!([]),
            json!({"type": "send"}),
            json!({"type": "send", "to": "x"}),
        ] {
            assert_eq!(request(&mut probe, &frame)["type"], "error");
        }
        assert_eq!(probe.complaints().len(), 3);
        probe.state.calls.fail_next("send", Fault::error("failed"));
        assert_eq!(
            request(&mut probe, &send),
            json!({"type": "error", "error": "Error: failed"})
        );
    }

    #[test]
    fn messages_of_version_1_are_lost_without_a_client() {
        let mut probe = Probe::without_client(Role::Version1);
        probe.state.push(Incoming::direct(&ann(), "lost"), true);
        probe.connect(Some(2));
        let incoming = Incoming::direct(&ann(), "look")
            .by_lid()
            .with_path("/media/a.png");
        let (pushed, frame) = probe.push(incoming.created_at(5));
        let expected = json!({
            "type": "message", "id": pushed.message_id, "sender": ann().lid(),
            "pn": ann().direct(), "content": "look", "timestamp": 5, "isGroup": false,
            "media": ["/media/a.png"],
        });
        assert_eq!(frame, expected);
    }

    #[test]
    fn client_of_version_1_gets_messages_without_files() {
        let mut probe = Probe::without_client(Role::Version2);
        let incoming = Incoming::direct(&ann(), "look").with_image("image/png", "picture");
        let pushed = probe.state.push(incoming.created_at(5), true);
        let (_, frames) = probe.connect(None);
        assert_eq!(frames[0], json!({"type": "status", "status": "connected"}));
        let expected = json!({
            "type": "message", "id": pushed.message_id, "sender": ann().direct(), "pn": "",
            "content": "look", "timestamp": 5, "isGroup": false,
        });
        assert_eq!(frames[1..], [expected]);
        for (kind, content) in [("voice", "[Voice Message]"), ("video", "[video]")] {
            let silent = Incoming::direct(&ann(), "").with_media(kind, "", "a/b", "bytes");
            assert_eq!(probe.push(silent).1["content"], content);
        }
        assert_eq!(
            request(&mut probe, &json!({"type": "fly"}))["type"],
            "error"
        );
        // It confirms nothing, so the other client gets the messages, too.
        assert_eq!(probe.connect(Some(2)).1.len(), 2 + 3);
        // Another client of version 1 does not get them again.
        assert_eq!(probe.connect(None).1.len(), 1);
    }
}
