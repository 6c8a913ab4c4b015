//! Messages of people as events.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::{
    APP_ID, BOT_ID, BOT_NAME, DIRECT_MESSAGE, GROUP_AND_C2C, PUBLIC_GUILD_MESSAGES,
};
use crate::connection::Push;
use crate::incoming::{Incoming, IncomingFile, Person};
use crate::model::{Chat, ChatKind, Pushed, Resource, StoredMessage};
use crate::state::{QqState, timestamp};

/// Validity of the address of an attachment, in milliseconds.
const ADDRESS_VALIDITY: i64 = 86_400_000;
/// The guild of all channels.
const GUILD_ID: &str = "9000000000000000001";

impl QqState {
    pub(crate) fn add_person(&mut self, person: &Person) {
        self.add_chat(ChatKind::User, &person.direct());
        self.add_chat(ChatKind::Dms, &person.dms());
    }

    pub(crate) fn add_chat(&mut self, kind: ChatKind, id: &str) {
        let chat = self.chats.entry(id.to_owned());
        chat.or_insert_with(|| Chat::new(kind));
    }

    /// Adds a message of a person, and pushes it if it reaches the bot.
    pub(crate) fn push(&mut self, mut incoming: Incoming, is_pushed: bool) -> Pushed {
        self.add_chat(incoming.kind, &incoming.chat);
        let message_id = self.message_id(incoming.kind);
        let files = std::mem::take(&mut incoming.files);
        let attachments: Vec<Value> = files
            .into_iter()
            .map(|file| self.add_attachment(file))
            .collect();
        let has_bot = self
            .chats
            .get(&incoming.chat)
            .is_some_and(|chat| chat.has_bot);
        let heard = self.heard_as(&incoming).filter(|_| has_bot && is_pushed);
        let pushes = heard.map(|(name, intents)| {
            let data = self.data(&message_id, &incoming, attachments);
            self.queue(name, intents, data)
        });
        let stored = StoredMessage {
            chat: incoming.chat.clone(),
            arrived: self.now(),
            replies: std::collections::BTreeSet::new(),
        };
        self.messages.insert(message_id.clone(), stored);
        Pushed {
            chat_id: incoming.chat,
            message_id,
            pushes: pushes.into_iter().collect(),
        }
    }

    /// Returns the name of the event of a message with its intents; `None` if the bot does not
    /// hear it.
    fn heard_as(&self, incoming: &Incoming) -> Option<(&'static str, u64)> {
        match (incoming.kind, incoming.mentions_bot) {
            (ChatKind::User, _) => Some(("C2C_MESSAGE_CREATE", GROUP_AND_C2C)),
            (ChatKind::Dms, _) => Some(("DIRECT_MESSAGE_CREATE", DIRECT_MESSAGE)),
            (ChatKind::Group, true) => Some(("GROUP_AT_MESSAGE_CREATE", GROUP_AND_C2C)),
            (ChatKind::Group, false) => {
                let is_heard = self.rules.delivers_group_messages;
                is_heard.then_some(("GROUP_MESSAGE_CREATE", GROUP_AND_C2C))
            }
            (ChatKind::Channel, true) => Some(("AT_MESSAGE_CREATE", PUBLIC_GUILD_MESSAGES)),
            (ChatKind::Channel, false) => None,
        }
    }

    fn add_attachment(&mut self, file: IncomingFile) -> Value {
        let id = self.next_id("TESTfile");
        let query = format!("appid={APP_ID}&fileid={id}&rkey={id}");
        let is_picture = file.mime.starts_with("image/");
        let side = if is_picture { 64 } else { 0 };
        let attachment = json!({
            "content_type": file.mime, "filename": file.name, "height": side, "width": side,
            "size": file.bytes.len(), "url": format!("{}/download?{query}", self.base),
        });
        let resource = Resource {
            mime: file.mime,
            bytes: file.bytes,
            expires: self.now() + ADDRESS_VALIDITY,
        };
        self.files.insert(id, resource);
        attachment
    }

    /// Returns the data of a message's event.
    fn data(&mut self, id: &str, incoming: &Incoming, attachments: Vec<Value>) -> Value {
        let created = incoming.created.unwrap_or_else(|| self.now());
        let mut data = json!({
            "id": id, "content": incoming.text, "timestamp": timestamp(created),
            "author": author(incoming),
        });
        if incoming.kind.is_guild() {
            let number = self.next();
            set(&mut data, "seq", number);
            set(&mut data, "seq_in_channel", number.to_string());
            let member = json!({"nick": incoming.person.name, "roles": ["11"],
                                "joined_at": timestamp(1_600_000_000_000)});
            set(&mut data, "member", member);
        } else {
            let scene = json!({"source": "default", "callback_data": ""});
            set(&mut data, "message_scene", scene);
        }
        let chat = incoming.chat.as_str();
        let members = match incoming.kind {
            ChatKind::User => json!({}),
            ChatKind::Group => json!({"group_id": chat, "group_openid": chat}),
            ChatKind::Channel => json!({
                "channel_id": chat, "guild_id": GUILD_ID,
                "mentions": [{"id": BOT_ID, "username": BOT_NAME, "bot": true}],
            }),
            ChatKind::Dms => json!({
                "channel_id": format!("5{}", chat.get(1..).unwrap_or_default()), "guild_id": chat,
                "src_guild_id": GUILD_ID, "direct_message": true,
            }),
        };
        for (name, value) in members.as_object().into_iter().flatten() {
            set(&mut data, name, value.clone());
        }
        if !attachments.is_empty() {
            set(&mut data, "attachments", attachments);
        }
        if let Some(quoted) = &incoming.quotes {
            set(
                &mut data,
                "message_reference",
                json!({"message_id": quoted}),
            );
        }
        for (name, value) in &incoming.changes {
            set(&mut data, name, value.clone());
        }
        data
    }

    /// Pushes an event to every session with one of its intents.
    pub(crate) fn queue(&mut self, name: &str, intents: u64, data: Value) -> usize {
        let id = self.next_id("");
        self.pushes.push(Push {
            id: format!("{name}:{id}"),
            name: name.to_owned(),
            data,
            intents,
            is_acknowledged: false,
            deliveries: 0,
        });
        let number = self.pushes.len() - 1;
        self.deliver(number);
        number
    }
}

fn author(incoming: &Incoming) -> Value {
    let person = &incoming.person;
    match incoming.kind {
        ChatKind::User => json!({
            "id": person.openid, "user_openid": person.openid, "union_openid": person.openid,
        }),
        ChatKind::Group => json!({
            "id": person.member_openid, "member_openid": person.member_openid,
            "union_openid": person.member_openid,
        }),
        ChatKind::Channel | ChatKind::Dms => json!({
            "id": person.user_id, "username": person.name, "avatar": "http://thirdqq.qlogo.cn/0",
            "bot": false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{GROUP, Probe, ann};

    #[test]
    fn every_kind_of_message_has_its_event() {
        let mut probe = Probe::new();
        probe.connect(0);
        let table = [
            (Incoming::direct(&ann(), "hi"), "C2C_MESSAGE_CREATE", "hi"),
            (
                Incoming::to_group(GROUP, &ann(), "hi").mentioning_bot(),
                "GROUP_AT_MESSAGE_CREATE",
                " hi",
            ),
            (
                Incoming::guild_direct(&ann(), "hi"),
                "DIRECT_MESSAGE_CREATE",
                "hi",
            ),
            (
                Incoming::to_channel("42", &ann(), "hi").mentioning_bot(),
                "AT_MESSAGE_CREATE",
                "<@!7000000000000000001> hi",
            ),
        ];
        for (incoming, name, text) in table {
            let pushed = probe.state.push(incoming.created_at(0), true);
            let event = probe.events(0).remove(0);
            assert_eq!(
                (&event["t"], &event["d"]["content"]),
                (&json!(name), &json!(text))
            );
            assert_eq!(event["d"]["id"], pushed.message_id);
            assert_eq!(event["d"]["timestamp"], "1970-01-01T08:00:00+08:00");
            let id = event["id"].as_str().unwrap();
            assert!(id.starts_with(&format!("{name}:")), "{id}");
        }
    }

    #[test]
    fn groups_deliver_only_mentions_by_default() {
        let mut probe = Probe::new();
        probe.connect(0);
        let unheard = Incoming::to_group(GROUP, &ann(), "hi");
        let pushed = probe.state.push(unheard.clone(), true);
        assert_eq!((pushed.pushes.len(), probe.events(0).len()), (0, 0));
        probe.state.rules.delivers_group_messages = true;
        let quoting = unheard.quoting(&pushed.message_id);
        probe
            .state
            .push(quoting.with_member("author", json!(7)), true);
        let event = probe.events(0).remove(0);
        assert_eq!(event["t"], "GROUP_MESSAGE_CREATE");
        assert_eq!(
            event["d"]["message_reference"]["message_id"],
            pushed.message_id
        );
        assert_eq!(event["d"]["author"], 7);
        probe.state.chats.get_mut(GROUP).unwrap().has_bot = false;
        let mention = Incoming::to_group(GROUP, &ann(), "hi").mentioning_bot();
        assert_eq!(probe.state.push(mention, true).pushes.len(), 0);
    }
}
