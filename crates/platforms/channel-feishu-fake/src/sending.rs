//! Messages that the bot sends: receivers, replies, and the `uuid` that makes a call repeatable.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::model::{ChatKind, Sender, StoredMessage};
use crate::params::Params;
use crate::state::FeishuState;
use crate::store::Place;

/// Time for which a `uuid` is remembered, in milliseconds.
const UUID_TIME: i64 = 3_600_000;
/// Maximum length of a `uuid`.
const UUID_LENGTH: usize = 50;

impl FeishuState {
    pub(crate) fn create_message(&mut self, params: &Params) -> ApiResult {
        let chat = self.receiver(params.asked("receive_id_type"), params.text("receive_id"))?;
        self.send(&chat, params, |state| state.place(&chat, None, false))
    }

    /// Returns the chat that a message goes to.
    fn receiver(&self, id_type: &str, id: &str) -> Result<String, ApiError> {
        if !matches!(
            id_type,
            "open_id" | "union_id" | "user_id" | "email" | "chat_id"
        ) {
            return Err(ApiError::of_field(
                "receive_id_type",
                "not one of the options",
            ));
        }
        if id_type == "chat_id" {
            return self.writable_chat(id);
        }
        if id_type == "open_id" && !id.starts_with("ou_") {
            return Err(ApiError::because(230001, "invalid receive_id"));
        }
        let person = self.people.values().find(|person| {
            let ids = person.ids();
            ids.get(id_type).and_then(Value::as_str) == Some(id)
        });
        match person {
            Some(person) => self.writable_chat(&person.direct()),
            None => Err(ApiError::new(230034)),
        }
    }

    fn writable_chat(&self, id: &str) -> Result<String, ApiError> {
        match self.chats.get(id) {
            None if !id.starts_with("oc_") => Err(ApiError::because(230001, "invalid receive_id")),
            None => Err(ApiError::new(230034)),
            Some(chat) if chat.is_dissolved => Err(ApiError::new(232009)),
            Some(chat) if !chat.has_bot && chat.kind == ChatKind::Direct => {
                Err(ApiError::new(230013))
            }
            Some(chat) if !chat.has_bot => Err(ApiError::new(230002)),
            Some(_) => Ok(id.to_owned()),
        }
    }

    pub(crate) fn reply(&mut self, params: &Params) -> ApiResult {
        let parent = self.message(params.id(0))?;
        let (chat, parent) = (self.writable_chat(&parent.chat)?, parent.id.clone());
        let in_thread = params.flag("reply_in_thread");
        self.send(&chat, params, |state| {
            state.place(&chat, Some(&parent), in_thread)
        })
    }

    fn send(
        &mut self,
        chat: &str,
        params: &Params,
        place: impl FnOnce(&mut Self) -> Place,
    ) -> ApiResult {
        let uuid = params.given("uuid");
        if let Some(uuid) = uuid {
            if uuid.chars().count() > UUID_LENGTH {
                return Err(ApiError::of_field("uuid", "the max len is 50"));
            }
            if let Some(earlier) = self.sent_with(chat, uuid) {
                return Ok(self.json(&earlier));
            }
        }
        self.check_frequency(chat)?;
        let (kind, content) = (params.text("msg_type"), params.text("content"));
        let card = self.check_content(kind, content)?;
        let Place {
            root,
            parent,
            thread,
        } = place(self);
        let (id, now) = (self.next_id("om_"), self.now());
        if let Some(card) = card.as_ref().and_then(|id| self.cards.get_mut(id)) {
            card.is_sent = true;
        }
        if let Some(uuid) = uuid {
            let key = (chat.to_owned(), uuid.to_owned());
            self.uuids.insert(key, (id.clone(), now));
        }
        let message = StoredMessage {
            id: id.clone(),
            chat: chat.to_owned(),
            sender: Sender::Bot,
            kind: kind.to_owned(),
            content: content.to_owned(),
            body: serde_json::from_str(content).unwrap_or_default(),
            root,
            parent,
            thread,
            upper: None,
            mentions: json!([]),
            created: now,
            updated: now,
            edits: 0,
            is_deleted: false,
            uuid: uuid.map(str::to_owned),
            card,
            history: Vec::new(),
            reactions: Vec::new(),
        };
        let answer = self.json(&message);
        self.messages.insert(id.clone(), message);
        self.sent.push(id);
        Ok(answer)
    }

    fn check_frequency(&self, chat: &str) -> Result<(), ApiError> {
        let since = self.now() - 1000;
        let recent = self
            .sent
            .iter()
            .rev()
            .filter_map(|id| self.messages.get(id));
        let count = recent
            .take_while(|message| message.created > since)
            .filter(|message| message.chat == chat)
            .count();
        match self.send_limit {
            Some(limit) if count >= limit => Err(ApiError::new(230020)),
            _ => Ok(()),
        }
    }

    /// Counts a change of a message or a card, and checks that there are not too many.
    pub(crate) fn count_update(&mut self, id: &str) -> Result<(), ApiError> {
        let now = self.now();
        self.updates.retain(|(_, at)| now - at < 1000);
        let count = self.updates.iter().filter(|(known, _)| known == id).count();
        if self.update_limit.is_some_and(|limit| count >= limit) {
            return Err(ApiError::new(230020));
        }
        self.updates.push((id.to_owned(), now));
        Ok(())
    }

    /// Returns the message that was sent to the chat with this `uuid` within the last hour.
    fn sent_with(&self, chat: &str, uuid: &str) -> Option<StoredMessage> {
        let (id, at) = self.uuids.get(&(chat.to_owned(), uuid.to_owned()))?;
        if self.now() - at >= UUID_TIME {
            return None;
        }
        self.messages.get(id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fault::Fault;
    use crate::incoming::{Incoming, Person};
    use crate::probe::Probe;

    const ROOM: &str = "oc_room";

    fn ann() -> Person {
        Person::new("ou_ann", "Ann")
    }

    fn probe() -> Probe {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        probe.state.add_chat(ROOM, ChatKind::Group, true);
        probe
    }

    fn text(words: &str) -> Value {
        json!({"text": words})
    }

    #[test]
    fn call_repeated_after_a_broken_connection_sends_once() {
        let mut probe = probe();
        let fault = Fault::DropAfterEffect;
        probe.state.calls.fail_next("message.create", fault);
        let body = json!({
            "receive_id": ROOM, "msg_type": "text", "content": text("x").to_string(), "uuid": "u",
        });
        let target = "/open-apis/im/v1/messages?receive_id_type=chat_id";
        assert_eq!(probe.call("POST", target, &body), Value::Null);
        let answer = probe.call("POST", target, &body);
        assert_eq!(
            probe.state.sent,
            [answer["data"]["message_id"].as_str().unwrap()]
        );
    }

    #[test]
    fn receivers_are_checked() {
        let mut probe = probe();
        for (id, has_bot) in [("oc_foreign", false), ("oc_gone", true)] {
            probe.state.add_chat(id, ChatKind::Group, has_bot);
        }
        probe.state.chats.get_mut("oc_gone").unwrap().is_dissolved = true;
        let receivers = [
            ("chat_id", ROOM, 0),
            ("chat_id", "oc_ann", 0),
            ("open_id", "ou_ann", 0),
            ("user_id", "ann", 0),
            ("union_id", "on_ann", 0),
            ("open_id", "oc_room", 230001),
            ("open_id", "ou_nobody", 230034),
            ("chat_id", "ou_ann", 230001),
            ("chat_id", "oc_nowhere", 230034),
            ("chat_id", "oc_foreign", 230002),
            ("chat_id", "oc_gone", 232009),
            ("name", "ann", 99992402),
        ];
        for (kind, id, code) in receivers {
            let target = format!("/open-apis/im/v1/messages?receive_id_type={kind}");
            let body =
                json!({"receive_id": id, "msg_type": "text", "content": text("x").to_string()});
            assert_eq!(probe.code("POST", &target, &body), code, "{kind} {id}");
        }
    }

    #[test]
    fn replies_belong_to_threads() {
        let mut probe = probe();
        let first = probe.state.push(Incoming::to(ROOM, &ann(), "first"), false);
        let quoting = Incoming::to(ROOM, &ann(), "second").replying_to(&first.message_id);
        let second = probe.state.push(quoting, false);
        let mut reply = |to: &str, in_thread: bool| {
            let body = json!({
                "msg_type": "text", "content": text("x").to_string(), "reply_in_thread": in_thread,
            });
            let target = format!("/open-apis/im/v1/messages/{to}/reply");
            probe.call("POST", &target, &body)["data"].clone()
        };
        let quoting = reply(&second.message_id, false);
        assert_eq!(quoting["root_id"], first.message_id.as_str());
        assert_eq!(quoting["parent_id"], second.message_id.as_str());
        assert_eq!(quoting.get("thread_id"), None);
        let started = reply(&first.message_id, true);
        let thread = started["thread_id"].as_str().unwrap();
        assert!(thread.starts_with("omt_"));
        // A reply to a message of a thread stays in it.
        let within = reply(started["message_id"].as_str().unwrap(), false);
        assert_eq!(within["thread_id"], thread);
        assert_eq!(within["root_id"], first.message_id.as_str());
    }

    #[test]
    fn chat_gets_few_messages_a_second_on_demand() {
        let mut probe = probe();
        probe.state.send_limit = Some(2);
        let mut code = |chat: &str| probe.send(chat, "text", &text("x"))["code"].clone();
        let codes = [code(ROOM), code(ROOM), code("oc_ann"), code(ROOM)];
        assert_eq!(codes, [json!(0), json!(0), json!(0), json!(230020)]);
        probe.state.advanced = Duration::from_secs(1);
        assert_eq!(probe.send(ROOM, "text", &text("x"))["code"], 0);
    }
}
