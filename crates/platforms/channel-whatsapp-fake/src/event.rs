//! Messages of people, and their frames.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::connection::{Out, Role};
use crate::incoming::{Incoming, IncomingFile, Person};
use crate::jid;
use crate::model::{KnownMessage, Pushed, ReceivedFile};
use crate::state::WhatsAppState;

impl WhatsAppState {
    pub(crate) fn add_person(&mut self, person: &Person) {
        self.numbers.insert(person.lid(), person.direct());
        self.chats.entry(person.direct()).or_insert(true);
    }

    pub(crate) fn add_group(&mut self, id: &str, has_bot: bool) {
        self.chats.insert(id.to_owned(), has_bot);
    }

    /// Adds a message of a person, and passes it on if it reaches the account.
    pub(crate) fn push(&mut self, incoming: Incoming, is_pushed: bool) -> Pushed {
        self.add_person(&incoming.person);
        if !self.chats.contains_key(&incoming.chat) {
            self.add_group(&incoming.chat, true);
        }
        let id = self.next_id("3A");
        let known = KnownMessage {
            chat: incoming.chat.clone(),
            participant: incoming.person.lid(),
            is_from_bot: false,
            content: incoming.text.clone(),
        };
        self.messages.insert(id.clone(), known);
        let is_heard = is_pushed && self.chats.get(&incoming.chat) == Some(&true);
        let pushed = Pushed {
            chat_id: self.sender(&incoming),
            message_id: id.clone(),
        };
        if is_heard && self.link.is_connected() {
            self.receive(&id, incoming);
        } else if is_heard {
            self.waiting.push((id, incoming));
        }
        pushed
    }

    /// Passes on what waited for the connection to WhatsApp.
    pub(crate) fn receive_waiting(&mut self) {
        for (id, incoming) in std::mem::take(&mut self.waiting) {
            self.receive(&id, incoming);
        }
    }

    fn receive(&mut self, id: &str, mut incoming: Incoming) {
        let files = std::mem::take(&mut incoming.files);
        if self.serves == Role::Version1 {
            return self.tell_clients_of_version_1(id, &incoming);
        }
        let seq = self.journal.next_seq();
        let media = files.into_iter().enumerate();
        let media: Vec<Value> = media
            .map(|(index, file)| self.add_file(seq, index, file))
            .collect();
        let frame = self.frame(id, &incoming, &media);
        self.journal.add(id, frame);
        self.dispatch();
    }

    fn add_file(&mut self, seq: u64, index: usize, file: IncomingFile) -> Value {
        let reference = format!("m{seq}-{index}");
        let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
        let media = json!({
            "ref": reference, "kind": file.kind, "mime": file.mime, "name": file.name,
            "size": file.announced.unwrap_or(size),
        });
        let received = ReceivedFile {
            seq,
            bytes: file.bytes,
            fetched: None,
        };
        self.files.insert(reference, received);
        media
    }

    /// Returns the JID of the chat as the message has it.
    fn sender(&self, incoming: &Incoming) -> String {
        let is_direct = incoming.chat == incoming.person.direct();
        if is_direct && incoming.is_by_lid {
            incoming.person.lid()
        } else {
            incoming.chat.clone()
        }
    }

    /// Returns the phone number's JID of a direct chat that is named by a LID.
    fn number_of(&self, incoming: &Incoming) -> String {
        let is_direct = incoming.chat == incoming.person.direct();
        if is_direct && incoming.is_by_lid && !incoming.hides_number {
            incoming.person.direct()
        } else {
            String::new()
        }
    }

    /// Returns the frame of a message without its `seq`.
    fn frame(&self, id: &str, incoming: &Incoming, media: &[Value]) -> Value {
        let Incoming { person, .. } = incoming;
        let is_group = jid::is_group(&incoming.chat);
        let mut frame = json!({
            "type": "message", "id": id, "sender": self.sender(incoming),
            "pn": self.number_of(incoming), "participant": "", "participantPn": "",
            "pushName": person.name, "content": incoming.text,
            "timestamp": incoming.created.unwrap_or_else(|| self.now() / 1000),
            "isGroup": is_group, "mentionsBot": incoming.mentions_bot, "media": media,
        });
        if is_group {
            set(&mut frame, "participant", person.lid());
            if !incoming.hides_number {
                set(&mut frame, "participantPn", person.direct());
            }
        }
        if let Some(quoted) = &incoming.quotes {
            set(&mut frame, "quoted", self.quoted(quoted));
        }
        for (name, value) in &incoming.changes {
            set(&mut frame, name, value.clone());
        }
        frame
    }

    /// Returns a message as it is contained in one that quotes it.
    fn quoted(&self, id: &str) -> Value {
        let known = self.messages.get(id);
        let text = |of: fn(&KnownMessage) -> &str| known.map(of).unwrap_or_default();
        json!({
            "id": id, "participant": text(|known| &known.participant),
            "fromBot": known.is_some_and(|known| known.is_from_bot),
            "content": text(|known| &known.content),
        })
    }

    /// Sends a message to every client of version 1. It is never repeated.
    fn tell_clients_of_version_1(&mut self, id: &str, incoming: &Incoming) {
        let mut frame = json!({
            "type": "message", "id": id, "sender": self.sender(incoming),
            "pn": self.number_of(incoming), "content": incoming.text,
            "timestamp": incoming.created.unwrap_or_else(|| self.now() / 1000),
            "isGroup": jid::is_group(&incoming.chat),
        });
        if !incoming.paths.is_empty() {
            set(&mut frame, "media", incoming.paths.clone());
        }
        for (name, value) in &incoming.changes {
            set(&mut frame, name, value.clone());
        }
        let out = Out::Text(frame.to_string());
        for open in self.connections.values_mut() {
            if open.is_admitted() {
                open.outbox.push_back(out.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Status;
    use crate::probe::{FIRST, GROUP, Probe, ann, id};

    #[test]
    fn direct_message_has_the_members_of_the_protocol() {
        let mut probe = Probe::new();
        let incoming = Incoming::direct(&ann(), "hello").created_at(1_789_000_000);
        let (pushed, frame) = probe.push(incoming);
        let expected = json!({
            "type": "message", "seq": 1, "id": pushed.message_id, "sender": ann().direct(),
            "pn": "", "participant": "", "participantPn": "", "pushName": "Ann",
            "content": "hello", "timestamp": 1_789_000_000, "isGroup": false,
            "mentionsBot": false, "media": [],
        });
        assert_eq!(frame, expected);
        let (pushed, frame) = probe.push(Incoming::direct(&ann(), "hello").by_lid());
        assert_eq!(
            (&frame["sender"], &frame["pn"]),
            (&json!(ann().lid()), &json!(ann().direct()))
        );
        assert_eq!(pushed.chat_id, ann().lid());
        let (_, frame) = probe.push(Incoming::direct(&ann(), "hello").without_number());
        assert_eq!(
            (&frame["sender"], &frame["pn"]),
            (&json!(ann().lid()), &json!(""))
        );
    }

    #[test]
    fn message_of_a_group_has_its_person() {
        let mut probe = Probe::new();
        let (_, frame) = probe.push(Incoming::to(GROUP, &ann(), "hi").mentioning_bot());
        assert_eq!(
            (&frame["sender"], &frame["isGroup"], &frame["pn"]),
            (&json!(GROUP), &json!(true), &json!(""))
        );
        assert_eq!(
            (&frame["participant"], &frame["participantPn"]),
            (&json!(ann().lid()), &json!(ann().direct()))
        );
        assert_eq!(
            (&frame["mentionsBot"], &frame["content"]),
            (&json!(true), &json!("@120000000000001 hi"))
        );
        let (_, frame) = probe.push(Incoming::to(GROUP, &ann(), "hi").without_number());
        assert_eq!(frame["participantPn"], "");
        let odd = Incoming::to(GROUP, &ann(), "hi").with_member("isGroup", json!("odd"));
        assert_eq!(probe.push(odd).1["isGroup"], "odd");
    }

    #[test]
    fn message_contains_the_quoted_one() {
        let mut probe = Probe::new();
        let silent = probe
            .state
            .push(Incoming::direct(&ann(), "first"), false)
            .message_id;
        assert_eq!(probe.send(&id(1), &ann().direct(), "mine"), "sent");
        let table = [
            (silent, "first", false),
            (id(1), "mine", true),
            (id(2), "", false),
        ];
        for (quoted, content, is_from_bot) in table {
            let (_, frame) = probe.push(Incoming::direct(&ann(), "what?").quoting(&quoted));
            let quote = &frame["quoted"];
            assert_eq!(
                (&quote["id"], &quote["content"], &quote["fromBot"]),
                (&json!(quoted), &json!(content), &json!(is_from_bot))
            );
        }
    }

    #[test]
    fn messages_wait_until_the_account_is_connected() {
        let mut probe = Probe::new();
        probe
            .state
            .set_status(Status::Disconnected, Some("a reason"), Some(true));
        let pushed = probe.state.push(Incoming::direct(&ann(), "hello"), true);
        let [status] = probe.outs(FIRST).try_into().unwrap();
        let expected = json!({
            "type": "status", "status": "disconnected", "reason": "a reason", "retry": true,
        });
        assert_eq!(status, expected);
        probe.state.set_status(Status::Connected, None, None);
        let [status, message] = probe.outs(FIRST).try_into().unwrap();
        assert_eq!(status["status"], "connected");
        assert_eq!(message["id"], pushed.message_id);
        // What is written in a group that the account left is never heard.
        probe.state.add_group(GROUP, false);
        probe.state.push(Incoming::to(GROUP, &ann(), "hello"), true);
        assert_eq!(probe.outs(FIRST), Vec::<Value>::new());
    }
}
