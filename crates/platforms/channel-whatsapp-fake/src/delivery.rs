//! Deliveries of the journal's messages to the client, and their confirmations.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::connection::Out;
use crate::journal::Entry;
use crate::model::KnownMessage;
use crate::params::Params;
use crate::state::WhatsAppState;
use crate::version1;

/// Number of unconfirmed messages that are sent ahead.
const AHEAD: usize = 64;

impl WhatsAppState {
    /// Sends messages to the client of version 2, at most 64 ahead, and new ones to clients of
    /// version 1.
    pub(crate) fn dispatch(&mut self) {
        self.dispatch_to_version_1();
        let Some(client) = self.connections.values_mut().find(|open| open.is_client()) else {
            return;
        };
        let entries = &self.journal.entries;
        let is_kept = |seq: &u64| entries.get(seq).is_some_and(Entry::is_kept);
        client.offered.retain(is_kept);
        let kept = entries.iter().filter(|(_, entry)| entry.is_kept());
        for (seq, _) in kept.take(AHEAD) {
            if client.offered.len() < AHEAD && client.offered.insert(*seq) {
                client.outbox.push_back(Out::Message(*seq));
            }
        }
    }

    /// Sends each message to clients of version 1 once. They confirm nothing.
    fn dispatch_to_version_1(&mut self) {
        let clients = self.connections.values_mut();
        for client in clients.filter(|open| open.is_client_of_version_1()) {
            for (seq, entry) in self.journal.entries.range(client.last + 1..) {
                if entry.is_kept() {
                    let frame = version1::message(&entry.frame);
                    client.outbox.push_back(Out::Text(frame.to_string()));
                }
                client.last = *seq;
                self.journal.told = self.journal.told.max(*seq);
            }
        }
    }

    /// Returns the frame of a message that is written now.
    pub(crate) fn deliver(&mut self, seq: u64) -> Option<String> {
        self.journal.deliver(seq)
    }

    /// Confirms messages.
    pub(crate) fn acknowledge(&mut self, params: Params<'_>) -> ApiResult {
        let now = self.now();
        for seq in params.list("seq") {
            let Some(seq) = seq.as_u64() else {
                return Err(ApiError::invalid("the type of seq"));
            };
            match self.journal.entries.get_mut(&seq) {
                Some(entry) if entry.deliveries > 0 => {
                    entry.confirmed.get_or_insert(now);
                }
                _ => self.complain(format!("ack: no message with seq {seq} was sent")),
            }
        }
        Ok(Value::Null)
    }

    /// Adds a message to the journal again with a new `seq`, as after a repetition by WhatsApp.
    pub(crate) fn repeat(&mut self, id: &str) {
        let Some(entry) = self.journal.of(id).last() else {
            return;
        };
        let mut frame = entry.frame.clone();
        if let Some(members) = frame.as_object_mut() {
            members.remove("seq");
        }
        self.journal.add(id, frame);
        self.dispatch();
    }

    /// Adds any members as a message. `type` and `seq` are added if they are missing.
    pub(crate) fn push_payload(&mut self, body: &Value) -> String {
        let mut frame = json!({"type": "message"});
        for (name, value) in body.as_object().into_iter().flatten() {
            set(&mut frame, name, value.clone());
        }
        let id = frame.get("id").and_then(Value::as_str).unwrap_or_default();
        let id = id.to_owned();
        self.remember(&id, &frame);
        self.journal.add(&id, frame);
        self.dispatch();
        id
    }

    /// Notes that a message exists, so that the client may refer to it.
    fn remember(&mut self, id: &str, frame: &Value) {
        let text = |key| frame.get(key).and_then(Value::as_str).unwrap_or_default();
        let known = KnownMessage {
            chat: self.canonical(text("sender")),
            participant: text("participant").to_owned(),
            is_from_bot: false,
            content: text("content").to_owned(),
        };
        self.messages.entry(id.to_owned()).or_insert(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::{FIRST, Probe, ann};

    fn texts(frames: &[Value]) -> Vec<String> {
        let content = |frame: &Value| frame["content"].as_str().unwrap_or_default().to_owned();
        let messages = frames.iter().filter(|frame| frame["type"] == "message");
        messages.map(content).collect()
    }

    fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|number| number.to_string()).collect()
    }

    fn push(probe: &mut Probe, text: &str) {
        probe.state.push(Incoming::direct(&ann(), text), true);
    }

    #[test]
    fn unconfirmed_messages_are_repeated_to_the_next_client() {
        let mut probe = Probe::new();
        let mut seqs = Vec::new();
        for text in numbers(0..5) {
            seqs.push(probe.hear(&text)["seq"].clone());
        }
        assert_eq!(
            probe.call("ack", &json!({"seq": [seqs[1], seqs[3]]})),
            Value::Null
        );
        // A confirmation may be repeated.
        assert_eq!(probe.call("ack", &json!({"seq": [seqs[1]]})), Value::Null);
        probe.state.remove_connection(FIRST);
        push(&mut probe, "missed");
        let (_, frames) = probe.connect(Some(2));
        assert_eq!(texts(&frames), ["0", "2", "4", "missed"]);
        let repeated: Vec<&Value> = frames.iter().filter_map(|frame| frame.get("seq")).collect();
        assert_eq!(repeated[..3], [&seqs[0], &seqs[2], &seqs[4]]);
        assert_eq!(repeated[3], &json!(6));
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }

    #[test]
    fn at_most_64_messages_are_sent_ahead() {
        let mut probe = Probe::new();
        for text in numbers(0..70) {
            push(&mut probe, &text);
        }
        assert_eq!(texts(&probe.outs(FIRST)), numbers(0..64));
        let frame = json!({"type": "ack", "seq": [64, 1]}).to_string();
        probe.state.handle_frame(FIRST, &frame);
        assert_eq!(texts(&probe.outs(FIRST)), numbers(64..66));
        let frame = json!({"type": "ack", "seq": (2..64).collect::<Vec<u64>>()}).to_string();
        probe.state.handle_frame(FIRST, &frame);
        assert_eq!(texts(&probe.outs(FIRST)), numbers(66..70));
    }

    #[test]
    fn wrong_confirmations_are_recorded() {
        let mut probe = Probe::new();
        assert_eq!(probe.call("ack", &json!({"seq": [1, 2]})), Value::Null);
        assert_eq!(probe.complaints().len(), 2);
        for seq in [json!("1"), json!(["1"]), json!([-1])] {
            let answer = probe.call("ack", &json!({"seq": seq}));
            assert_eq!(
                (&answer["code"], answer.get("requestId")),
                (&json!("invalid"), None)
            );
            assert_eq!(probe.complaints().len(), 1, "{seq}");
        }
        // A message that was not written yet cannot be confirmed.
        push(&mut probe, "unread");
        let frame = json!({"type": "ack", "seq": [1]}).to_string();
        probe.state.handle_frame(FIRST, &frame);
        assert_eq!(probe.complaints().len(), 1);
        assert_eq!(texts(&probe.outs(FIRST)), ["unread"]);
    }

    #[test]
    fn oldest_messages_are_dropped_beyond_the_limits() {
        let mut probe = Probe::new();
        probe.state.remove_connection(FIRST);
        probe.state.journal.count_limit = 2;
        for text in numbers(0..5) {
            push(&mut probe, &text);
        }
        for _ in 0..2 {
            // The number is repeated with its message.
            let (number, frames) = probe.connect(Some(2));
            assert_eq!(texts(&frames), ["3", "4"]);
            let lost: Vec<Option<&Value>> =
                frames[2..].iter().map(|frame| frame.get("lost")).collect();
            assert_eq!(lost, [Some(&json!(3)), None]);
            probe.state.remove_connection(number);
        }
        probe.state.journal.size_limit = 1;
        push(&mut probe, &"x".repeat(200));
        let (_, frames) = probe.connect(Some(2));
        let message = frames.last().unwrap();
        assert_eq!((&message["seq"], &message["lost"]), (&json!(6), &json!(2)));
    }

    #[test]
    fn repeated_message_has_a_new_seq() {
        let mut probe = Probe::new();
        let (pushed, first) = probe.push(Incoming::direct(&ann(), "hello"));
        probe.state.repeat(&pushed.message_id);
        let second = probe.frame();
        assert_eq!((&first["seq"], &second["seq"]), (&json!(1), &json!(2)));
        assert_eq!(first["id"], second["id"]);
        probe.state.repeat("unknown");
        assert_eq!(probe.outs(FIRST), Vec::<Value>::new());
    }

    #[test]
    fn any_members_can_be_pushed() {
        let mut probe = Probe::new();
        assert_eq!(
            probe.state.push_payload(&json!({"id": "odd", "sender": 5})),
            "odd"
        );
        let expected = json!({"type": "message", "seq": 1, "id": "odd", "sender": 5});
        assert_eq!(probe.frame(), expected);
        probe.state.push_payload(&json!({"seq": "odd"}));
        assert_eq!(probe.frame(), json!({"type": "message", "seq": "odd"}));
    }
}
