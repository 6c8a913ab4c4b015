//! Answers of clients to frames, matched by the id of the frame.

use serde_json::Value;

use crate::state::DingTalkState;

impl DingTalkState {
    /// Handles a text frame from the client.
    pub(crate) fn handle_frame(&mut self, connection: usize, text: &str) {
        let Ok(frame @ Value::Object(_)) = serde_json::from_str::<Value>(text) else {
            return self.complain(&format!("no JSON object: {text}"));
        };
        self.check_form(&frame);
        let id = frame.pointer("/headers/messageId").and_then(Value::as_str);
        let id = id.unwrap_or_default();
        if self.system_frames.contains_key(id) {
            self.handle_system_answer(connection, id, &frame);
        } else {
            self.handle_answer(connection, id, &frame);
        }
    }

    /// Records what DingTalk's documentation does not allow in an answer.
    fn check_form(&mut self, frame: &Value) {
        let content_type = frame
            .pointer("/headers/contentType")
            .and_then(Value::as_str);
        let checks = [
            ("code", frame.get("code").is_some_and(Value::is_i64)),
            ("contentType", content_type == Some("application/json")),
            (
                "message",
                frame.get("message").is_some_and(Value::is_string),
            ),
            ("data", data(frame).is_some()),
        ];
        for (name, is_right) in checks {
            if !is_right {
                self.complain(&format!("an answer with a wrong {name}"));
            }
        }
        let members = frame.as_object().into_iter().flatten();
        let known = ["code", "headers", "message", "data"];
        for (name, _) in members.filter(|(name, _)| !known.contains(&name.as_str())) {
            self.complain(&format!("an answer with the unknown member {name}"));
        }
    }

    fn handle_system_answer(&mut self, connection: usize, id: &str, frame: &Value) {
        let Some(sent) = self.system_frames.remove(id) else {
            return;
        };
        if sent.connection != connection {
            self.complain(&format!("an answer to {id} on another connection"));
        }
        if code(frame) != Some(200) {
            self.complain(&format!("a refused frame {}", sent.topic));
        }
        if sent.topic == "ping" {
            if data(frame).as_ref() != Some(&sent.data) {
                self.complain("an answer to a ping with other data");
            }
            self.answered_pings += 1;
        }
    }

    fn handle_answer(&mut self, connection: usize, id: &str, frame: &Value) {
        let delivery = self.in_flight.get_mut(id);
        let Some(delivery) = delivery.filter(|known| known.connection == connection) else {
            return self.complain(&format!("an answer to the unknown message {id:?}"));
        };
        // Late answers do not count: the push was delivered again.
        if delivery.is_over {
            return;
        }
        let number = delivery.push;
        let answer = data(frame).unwrap_or_default();
        let is_later = answer.get("status").and_then(Value::as_str) == Some("LATER");
        let is_done = code(frame) == Some(200) && !is_later;
        delivery.is_over = is_done;
        let Some(push) = self.pushes.get_mut(number) else {
            return;
        };
        let is_callback = push.kind == "CALLBACK";
        if is_done {
            push.is_acknowledged = true;
            push.is_waiting = false;
            push.answer = answer.clone();
        } else {
            // It is delivered again when the time for an answer is over.
            push.refusals += 1;
        }
        if is_callback && answer.get("response").is_none() {
            self.complain("an answer to a callback without a response");
        }
    }

    pub(crate) fn complain(&mut self, what: &str) {
        self.complaints.push(format!("gateway: {what}"));
    }
}

fn code(frame: &Value) -> Option<i64> {
    frame.get("code").and_then(Value::as_i64)
}

/// Returns the data of an answer, which is JSON in a text.
fn data(frame: &Value) -> Option<Value> {
    serde_json::from_str(frame.get("data")?.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::incoming::{Incoming, Person};
    use crate::probe::Probe;

    fn probe() -> Probe {
        let mut probe = Probe::new();
        probe.connect(0);
        probe
    }

    #[test]
    fn refused_push_is_delivered_again_in_time() {
        let mut probe = probe();
        probe.state.acknowledge_timeout = std::time::Duration::ZERO;
        let hello = Incoming::direct(&Person::new("ann", "Ann"), "hello");
        let pushed = probe.state.push(hello, true);
        let first = probe.frames(0).remove(0);
        probe.answer(0, &first, 500, &json!({"response": "no"}));
        assert_eq!(
            (probe.state.refusals(&pushed), probe.frames(0).len()),
            (1, 0)
        );
        probe.state.expire_deliveries();
        let second = probe.frames(0).remove(0);
        // A late answer does not count.
        probe.acknowledge(0, &first);
        assert!(!probe.state.is_acknowledged(&pushed));
        probe.acknowledge(0, &second);
        assert!(probe.state.is_acknowledged(&pushed));
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn event_can_be_put_off() {
        let mut probe = probe();
        let number = probe.state.force_push("EVENT", "*", "user_add_org", "{}");
        let frame = probe.frames(0).remove(0);
        assert_eq!(frame["headers"]["eventType"], "user_add_org");
        probe.answer(0, &frame, 200, &json!({"status": "LATER"}));
        probe.answer(0, &frame, 200, &json!({"status": "SUCCESS"}));
        let push = &probe.state.pushes[number];
        assert_eq!((push.refusals, push.is_acknowledged), (1, true));
    }

    #[test]
    fn pings_are_echoed() {
        let mut probe = probe();
        for (data, complaints) in [(json!({"opaque": "1"}), 0), (json!({"opaque": "2"}), 1)] {
            probe
                .state
                .send_system_to(0, "ping", &json!({"opaque": "1"}));
            let frame = probe.frames(0).remove(0);
            probe.answer(0, &frame, 200, &data);
            assert_eq!(probe.state.complaints.len(), complaints);
        }
        assert_eq!(probe.state.answered_pings, 2);
    }

    #[test]
    fn odd_answers_are_complaints() {
        let mut probe = probe();
        probe
            .state
            .push(Incoming::direct(&Person::new("ann", "Ann"), "x"), true);
        let id = Probe::id(&probe.frames(0).remove(0));
        let odd = json!({"code": "200", "headers": {"messageId": id}, "data": {}, "extra": 1});
        for frame in ["no json", "[]", &odd.to_string(), r#"{"headers": {}}"#] {
            probe.state.handle_frame(0, frame);
        }
        let problems = probe.state.complaints.iter();
        let problems: Vec<&str> = problems
            .filter_map(|text| text.strip_prefix("gateway: "))
            .collect();
        let expected = [
            "no JSON object: no json",
            "no JSON object: []",
            "an answer with a wrong code",
            "an answer with a wrong contentType",
            "an answer with a wrong message",
            "an answer with a wrong data",
            "an answer with the unknown member extra",
            "an answer to a callback without a response",
            "an answer with a wrong code",
            "an answer with a wrong contentType",
            "an answer with a wrong message",
            "an answer with a wrong data",
            "an answer to the unknown message \"\"",
        ];
        assert_eq!(problems, expected);
    }
}
