//! Events as people cause them.

use serde_json::{Value, json};

use crate::account::{BOT_NAME, BOT_USER_ID, GROUP_ID};
use crate::incoming::{Incoming, Person};
use crate::model::{Chat, Pushed, TEXT_PANEL};
use crate::state::MochatState;

impl MochatState {
    pub(crate) fn add_person(&mut self, person: &Person) {
        self.people.insert(person.id.clone(), person.clone());
        self.add_session(&person.direct(), std::slice::from_ref(person));
    }

    /// Adds a session, or people to it.
    pub(crate) fn add_session(&mut self, id: &str, people: &[Person]) {
        let converse = format!("converse_{id}");
        let chat = self
            .chats
            .entry(id.to_owned())
            .or_insert_with(|| new_chat(None, converse));
        for person in people {
            if !chat.participants.contains(&person.id) {
                chat.participants.push(person.id.clone());
            }
            self.people.insert(person.id.clone(), person.clone());
        }
    }

    pub(crate) fn add_panel(&mut self, id: &str, kind: i64) {
        let chat = new_chat(Some(kind), id.to_owned());
        self.chats.entry(id.to_owned()).or_insert(chat);
    }

    /// Adds a message of a person without delivering it.
    pub(crate) fn add_message(&mut self, incoming: Incoming) -> Pushed {
        let is_session = incoming.chat.starts_with("session_");
        if is_session {
            self.add_session(&incoming.chat, std::slice::from_ref(&incoming.person));
        } else {
            self.add_panel(&incoming.chat, TEXT_PANEL);
        }
        let id = self.next_id();
        let payload = self.message_payload(&id, &incoming);
        let created = incoming.created.unwrap_or_else(|| self.now());
        let seq = self.add_event(&incoming.chat, "message.add", created, payload);
        Pushed {
            chat_id: incoming.chat,
            message_id: id,
            seq,
        }
    }

    fn message_payload(&self, id: &str, incoming: &Incoming) -> Value {
        let chat = self.chats.get(&incoming.chat);
        let mut meta = incoming.meta.clone();
        if let Some(quoted) = &incoming.quotes {
            let quoted = self.quote(&incoming.chat, quoted);
            nanobot_testkit::json::set(&mut meta, "reply", quoted);
        }
        let mut payload = json!({
            "messageId": id, "author": incoming.person.id, "authorInfo": incoming.person.info(),
            "content": incoming.content, "meta": meta,
            "converseId": chat.map(|chat| chat.converse.clone()),
        });
        let own = chat.filter(|chat| !chat.is_session()).map(|_| GROUP_ID);
        if let Some(group) = incoming.group.as_deref().or(own) {
            nanobot_testkit::json::set(&mut payload, "groupId", group);
        }
        payload
    }

    /// Returns the replied-to message as a reply carries it.
    fn quote(&self, chat: &str, id: &str) -> Value {
        let message = self.find_message(chat, id);
        let member = |key: &str| message.and_then(|message| message.get(key)).cloned();
        json!({"_id": id, "author": member("author"), "content": member("content")})
    }

    /// Returns the content of the event that added a message.
    pub(crate) fn find_message(&self, chat: &str, id: &str) -> Option<&Value> {
        let events = self.chats.get(chat)?.events.iter();
        let mut added = events.filter(|event| event.kind == "message.add");
        let event = added.find(|event| event.message_id() == id)?;
        Some(&event.payload)
    }

    pub(crate) fn push(&mut self, incoming: Incoming) -> Pushed {
        let pushed = self.add_message(incoming);
        self.deliver(&pushed.chat_id, pushed.seq);
        pushed
    }

    /// Reports a change of a message: `update`, `recall` or `delete`.
    pub(crate) fn change_message(
        &mut self,
        pushed: &Pushed,
        kind: &str,
        content: Option<&Value>,
    ) -> Pushed {
        let mut payload = self
            .find_message(&pushed.chat_id, &pushed.message_id)
            .cloned()
            .unwrap_or_default();
        if let Some(content) = content {
            nanobot_testkit::json::set(&mut payload, "content", content.clone());
        }
        self.push_claw_event(&pushed.chat_id, &format!("message.{kind}"), payload)
    }

    /// Adds and delivers an event of any type.
    pub(crate) fn push_claw_event(&mut self, chat: &str, kind: &str, payload: Value) -> Pushed {
        let created = self.now();
        let message = payload.get("messageId").and_then(Value::as_str);
        let message_id = message.unwrap_or_default().to_owned();
        let seq = self.add_event(chat, kind, created, payload);
        self.deliver(chat, seq);
        Pushed {
            chat_id: chat.to_owned(),
            message_id,
            seq,
        }
    }

    /// Adds a message of the bot, which is an event, too.
    pub(crate) fn echo(&mut self, chat: &str, text: &str, reply_to: Option<&str>) -> String {
        let bot = Person::new(BOT_USER_ID, BOT_NAME);
        let mut message = Incoming::to(chat, &bot, text);
        message.quotes = reply_to.map(str::to_owned);
        if !self.echoes_sends {
            return self.next_id();
        }
        self.push(message).message_id
    }
}

fn new_chat(panel: Option<i64>, converse: String) -> Chat {
    Chat {
        panel,
        converse,
        has_robot: true,
        ..Chat::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::Mention;
    use crate::probe::{PANEL, Probe, ann, text};

    fn payload(probe: &mut Probe, incoming: Incoming) -> Value {
        let pushed = probe.state.push(incoming);
        let message = probe
            .state
            .find_message(&pushed.chat_id, &pushed.message_id);
        message.unwrap().clone()
    }

    #[test]
    fn message_has_the_members_of_its_chat() {
        let mut probe = Probe::new();
        let direct = payload(&mut probe, text("hello"));
        assert_eq!(direct["author"], "ann");
        assert_eq!(direct["authorInfo"]["nickname"], "Ann");
        assert_eq!(direct.get("groupId"), None);
        let panel = payload(&mut probe, Incoming::to(PANEL, &ann(), "hi"));
        assert_eq!(
            (&panel["groupId"], &panel["converseId"]),
            (&json!(GROUP_ID), &json!(PANEL))
        );
        let reply = direct["messageId"].as_str().unwrap();
        let reply = payload(&mut probe, text("and?").quoting(reply));
        assert_eq!(reply["meta"]["reply"]["author"], "ann");
        let other = payload(&mut probe, text("x").with_content(json!([1])).in_group("g"));
        assert_eq!(
            (&other["content"], &other["groupId"]),
            (&json!([1]), &json!("g"))
        );
    }

    #[test]
    fn bot_is_mentioned_in_every_form() {
        let mut probe = Probe::new();
        for form in Mention::ALL {
            let message = payload(&mut probe, text("hey").mentioning_robot_as(form));
            let written = message.to_string();
            let flags = ["mentioned", "wasMentioned"];
            let has_flag = flags
                .iter()
                .any(|flag| message["meta"][flag] == json!(true));
            assert!(
                has_flag || written.contains(BOT_USER_ID),
                "{form:?} {written}"
            );
            let is_text = matches!(form, Mention::Tag | Mention::At);
            assert_eq!(message["content"] != json!("hey"), is_text, "{form:?}");
        }
        let both = payload(&mut probe, text("x").mentioning(&ann()).mentioning_robot());
        assert_eq!(both["meta"]["mentions"], json!(["ann", BOT_USER_ID]));
    }

    #[test]
    fn changes_are_events_with_numbers_of_their_own() {
        let mut probe = Probe::new();
        let hello = probe.state.push(text("hello"));
        let kinds = ["update", "recall", "delete"];
        let changes = kinds.map(|kind| {
            let content = json!("changed");
            probe.state.change_message(&hello, kind, Some(&content)).seq
        });
        assert_eq!((hello.seq, changes), (1, [2, 3, 4]));
        let chat = &probe.state.chats[&ann().direct()];
        let kinds: Vec<_> = chat.events.iter().map(|event| &*event.kind).collect();
        let expected = [
            "message.add",
            "message.update",
            "message.recall",
            "message.delete",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(chat.events[1].payload["content"], "changed");
        assert_eq!(chat.events[0].payload["content"], "hello");
    }
}
