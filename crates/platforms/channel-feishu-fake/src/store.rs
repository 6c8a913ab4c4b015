//! People, chats, and the messages that people send.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::BOT_OPEN_ID;
use crate::incoming::{Incoming, Person};
use crate::model::{Chat, ChatKind, Pushed, Resource, Sender, StoredMessage};
use crate::state::FeishuState;

/// The place of a message in a chain of replies.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) root: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) thread: Option<String>,
}

impl FeishuState {
    pub(crate) fn add_person(&mut self, person: &Person) {
        self.people.insert(person.open_id.clone(), person.clone());
        self.add_chat(&person.direct(), ChatKind::Direct, true);
    }

    pub(crate) fn add_chat(&mut self, id: &str, kind: ChatKind, has_bot: bool) {
        let chat = Chat {
            kind,
            has_bot,
            is_dissolved: false,
        };
        self.chats.entry(id.to_owned()).or_insert(chat);
    }

    /// Sends a message from a person. The first message creates its person and chat.
    pub(crate) fn push(&mut self, incoming: Incoming, sends_event: bool) -> Pushed {
        self.add_person(&incoming.person);
        self.add_chat(&incoming.chat, ChatKind::Group, true);
        let chat_id = incoming.chat.clone();
        let mentions = mentions(&incoming);
        let is_for_bot = mentions
            .as_array()
            .into_iter()
            .flatten()
            .any(|mention| mention.pointer("/id/open_id") == Some(&json!(BOT_OPEN_ID)));
        let message_id = self.store_incoming(incoming, mentions, None);
        let chat = self.chats.get(&chat_id);
        let is_direct = chat.is_some_and(|chat| chat.kind == ChatKind::Direct);
        let is_told = chat.is_some_and(|chat| chat.has_bot && !chat.is_dissolved)
            && (is_direct || is_for_bot || !self.only_mentions);
        let events = if sends_event && is_told {
            self.queue_message(&message_id).into_iter().collect()
        } else {
            Vec::new()
        };
        Pushed {
            chat_id,
            message_id,
            events,
        }
    }

    fn store_incoming(
        &mut self,
        incoming: Incoming,
        mentions: Value,
        upper: Option<String>,
    ) -> String {
        let id = self.next_id("om_");
        let created = incoming.created.unwrap_or_else(|| self.now());
        let place = self.place(
            &incoming.chat,
            incoming.reply_to.as_deref(),
            incoming.in_thread,
        );
        let mut content = incoming.content;
        for file in incoming.files {
            let is_image = file.place.1 == "image_key";
            let key = self.next_id(if is_image { "img_v3_" } else { "file_v3_" });
            if let Some(object) = content.pointer_mut(&file.place.0) {
                set(object, file.place.1, key.as_str());
            }
            let resource = Resource {
                name: file.name,
                kind: if is_image { "image" } else { "file" }.to_owned(),
                mime: file.mime,
                bytes: file.bytes,
                message: Some(id.clone()),
            };
            self.resources.insert(key, resource);
        }
        let sender = if incoming.is_app {
            Sender::OtherBot(incoming.person)
        } else {
            Sender::Person(incoming.person)
        };
        for child in incoming.forwarded {
            self.add_person(&child.person);
            let mentions = self::mentions(&child);
            self.store_incoming(child, mentions, Some(id.clone()));
        }
        let message = StoredMessage {
            id: id.clone(),
            chat: incoming.chat,
            sender,
            kind: incoming.kind,
            content: content.to_string(),
            body: content,
            root: place.root,
            parent: place.parent,
            thread: place.thread,
            upper,
            mentions,
            created,
            updated: created,
            edits: 0,
            is_deleted: false,
            uuid: None,
            card: None,
            history: Vec::new(),
            reactions: Vec::new(),
        };
        self.messages.insert(id.clone(), message);
        id
    }

    /// Returns the place of a new message. A reply in a thread, in a topic group or to a message
    /// of a thread belongs to the thread; the first one starts it.
    pub(crate) fn place(&mut self, chat: &str, parent: Option<&str>, in_thread: bool) -> Place {
        let is_topics = self
            .chats
            .get(chat)
            .is_some_and(|chat| chat.kind == ChatKind::Topics);
        let Some(known) = parent.and_then(|parent| self.messages.get(parent)).cloned() else {
            let thread = is_topics.then(|| self.next_id("omt_"));
            return Place {
                parent: parent.map(str::to_owned),
                root: parent.map(str::to_owned),
                thread,
            };
        };
        let root = known.root.clone().unwrap_or_else(|| known.id.clone());
        let thread = match known.thread {
            Some(thread) => Some(thread),
            None if in_thread || is_topics => Some(self.next_id("omt_")),
            None => None,
        };
        for id in [&root, &known.id] {
            if let Some(message) = self.messages.get_mut(id) {
                message.thread.clone_from(&thread);
            }
        }
        Place {
            root: Some(root),
            parent: Some(known.id),
            thread,
        }
    }
}

/// Returns the mentions as events have them.
fn mentions(incoming: &Incoming) -> Value {
    let mention = |(index, (ids, name)): (usize, &(Value, String))| {
        let is_bot = ids.get("open_id") == Some(&json!(BOT_OPEN_ID));
        json!({
            "key": format!("@_user_{}", index + 1), "id": ids, "name": name,
            "mentioned_type": if is_bot { "bot" } else { "user" },
            "tenant_key": crate::account::TENANT_KEY,
        })
    };
    incoming.mentions.iter().enumerate().map(mention).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Person {
        Person::new("ou_ann", "Ann")
    }

    /// Pushes a message, and returns the member `message` of its event.
    fn event(state: &mut FeishuState, incoming: Incoming) -> Value {
        let pushed = state.push(incoming, true);
        let payload = &state.events[pushed.events[0]].payload;
        let payload: Value = serde_json::from_slice(payload).unwrap();
        payload["event"].clone()
    }

    #[test]
    fn mentions_are_keys_in_the_text() {
        let mut state = FeishuState::default();
        let bob = Person::new("ou_bob", "Bob");
        let incoming = Incoming::to("oc_1", &ann(), "@_user_2, this is @_user_1")
            .mentioning_bot()
            .mentioning(&bob);
        let message = event(&mut state, incoming)["message"].clone();
        assert_eq!(
            message["content"],
            json!({"text": "@_user_2, this is @_user_1"}).to_string()
        );
        let mentioned: Vec<_> = message["mentions"].as_array().unwrap().iter().collect();
        assert_eq!(mentioned[0]["id"]["open_id"], BOT_OPEN_ID);
        assert_eq!(
            (&mentioned[0]["id"]["user_id"], &mentioned[0]["key"]),
            (&json!(""), &json!("@_user_1"))
        );
        assert_eq!(
            (&mentioned[1]["id"]["user_id"], &mentioned[1]["name"]),
            (&json!("bob"), &json!("Bob"))
        );
        let all = event(
            &mut state,
            Incoming::to("oc_1", &ann(), "hi").mentioning_all(),
        );
        assert_eq!(
            all["message"]["content"],
            json!({"text": "@_all hi"}).to_string()
        );
        assert_eq!(all["message"].get("mentions"), None);
    }

    #[test]
    fn groups_without_the_bot_and_unread_messages_cause_no_events() {
        let mut state = FeishuState::default();
        state.add_chat("oc_foreign", ChatKind::Group, false);
        let foreign = state.push(Incoming::to("oc_foreign", &ann(), "x"), true);
        state.only_mentions = true;
        let unread = state.push(Incoming::to("oc_1", &ann(), "x"), true);
        let mention = state.push(Incoming::to("oc_1", &ann(), "x").mentioning_bot(), true);
        let direct = state.push(Incoming::direct(&ann(), "x"), true);
        let counts = [foreign, unread, mention, direct].map(|pushed| pushed.events.len());
        assert_eq!(counts, [0, 0, 1, 1]);
    }

    #[test]
    fn files_are_named_by_keys() {
        let mut state = FeishuState::default();
        let words = Incoming::direct(&ann(), "look");
        let kinds = [
            (
                words.clone().with_file("a.txt", "text/plain", "x"),
                "file",
                "/file_key",
            ),
            (
                words.clone().with_image("image/png", "x"),
                "image",
                "/image_key",
            ),
            (words.clone().with_audio(5, "x"), "audio", "/file_key"),
            (
                words.clone().with_video("a.mp4", 5, "x"),
                "media",
                "/file_key",
            ),
            (
                words.clone().with_post_image("image/png", "x"),
                "post",
                "/content/1/0/image_key",
            ),
            (
                words.with_post_media("a.pdf", "application/pdf", "x"),
                "post",
                "/content/1/0/file_key",
            ),
        ];
        for (incoming, kind, place) in kinds {
            let message = event(&mut state, incoming)["message"].clone();
            assert_eq!(message["message_type"], kind);
            let content: Value =
                serde_json::from_str(message["content"].as_str().unwrap()).unwrap();
            let key = content.pointer(place).and_then(Value::as_str).unwrap();
            let resource = &state.resources[key];
            assert_eq!(resource.message.as_deref(), message["message_id"].as_str());
        }
    }

    #[test]
    fn bots_of_others_are_apps() {
        let mut state = FeishuState::default();
        let other = Incoming::to("oc_1", &Person::new("ou_bot", "Bot"), "x").from_app();
        assert_eq!(event(&mut state, other)["sender"]["sender_type"], "app");
    }
}
