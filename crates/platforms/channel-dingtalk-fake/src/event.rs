//! Messages of people, and their pushes.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::{CLIENT_ID, CORP_ID, MESSAGE_TOPIC, ROBOT_USER_ID};
use crate::connection::Push;
use crate::incoming::{Incoming, IncomingFile, Person};
use crate::model::{Address, Chat, Pushed, Resource, StoredMessage};
use crate::state::DingTalkState;

/// Validity of the address for replies to a message, in milliseconds.
const SESSION_VALIDITY: i64 = 5_400_000;

impl DingTalkState {
    pub(crate) fn add_person(&mut self, person: &Person) {
        if !person.staff_id.is_empty() {
            self.people.insert(person.staff_id.clone(), person.clone());
        }
        let chat = Chat {
            title: String::new(),
            is_group: false,
            has_robot: true,
        };
        self.chats.insert(person.direct(), chat);
    }

    pub(crate) fn add_group(&mut self, id: &str, has_robot: bool) {
        let chat = Chat {
            title: format!("Group {id}"),
            is_group: true,
            has_robot,
        };
        self.chats.insert(id.to_owned(), chat);
    }

    /// Adds a message of a person, and pushes it if it reaches the robot.
    pub(crate) fn push(&mut self, mut incoming: Incoming, is_pushed: bool) -> Pushed {
        let direct = incoming.person.direct();
        if !self.chats.contains_key(&direct) {
            self.add_person(&incoming.person);
        }
        if !self.chats.contains_key(&incoming.chat) {
            self.add_group(&incoming.chat, true);
        }
        for file in std::mem::take(&mut incoming.files) {
            self.add_file(&incoming.kind, &mut incoming.content, file);
        }
        let message_id = self.next_id("msg");
        let created = incoming.created.unwrap_or_else(|| self.now());
        let stored = StoredMessage {
            person: incoming.person.clone(),
            kind: incoming.kind.clone(),
            content: incoming.content.clone(),
            created,
        };
        let chat = self.chats.get(&incoming.chat);
        let is_heard =
            chat.is_some_and(|chat| chat.has_robot && (!chat.is_group || incoming.mentions_robot));
        let pushes = if is_pushed && is_heard {
            let data = self.message_data(&message_id, &incoming, created);
            vec![self.queue_callback(MESSAGE_TOPIC, data.to_string())]
        } else {
            Vec::new()
        };
        self.messages.insert(message_id.clone(), stored);
        Pushed {
            chat_id: incoming.chat,
            message_id,
            pushes,
        }
    }

    fn add_file(&mut self, kind: &str, content: &mut Value, file: IncomingFile) {
        let code = self.next_id("code+");
        if let Some(place) = content.pointer_mut(&file.place) {
            set(place, "downloadCode", code.as_str());
            // Pictures have a second code, for the original.
            if place.get("pictureDownloadCode").is_some() {
                set(place, "pictureDownloadCode", code.as_str());
            }
        }
        let resource = Resource {
            name: file.name,
            kind: kind.to_owned(),
            mime: file.mime,
            bytes: file.bytes,
        };
        self.files.insert(code, resource);
    }

    /// Returns the content of the callback of a message.
    fn message_data(&mut self, id: &str, incoming: &Incoming, created: i64) -> Value {
        let session = self.next_id("session");
        let expires = self.now() + SESSION_VALIDITY;
        let address = Address {
            target: incoming.chat.clone(),
            expires,
        };
        self.sessions.insert(session.clone(), address);
        let person = &incoming.person;
        let mut data = json!({
            "conversationId": incoming.chat, "conversationType": "1", "msgId": id,
            "msgtype": incoming.kind, "createAt": created, "senderId": person.sender_id,
            "senderNick": person.name, "senderPlatform": "Win", "isAdmin": false,
            "chatbotUserId": ROBOT_USER_ID, "chatbotCorpId": CORP_ID, "robotCode": CLIENT_ID,
            "openThreadId": incoming.chat, "sessionWebhookExpiredTime": expires,
            "sessionWebhook": format!("{}/robot/sendBySession?session={session}", self.oapi),
        });
        if !person.staff_id.is_empty() {
            set(&mut data, "senderStaffId", person.staff_id.as_str());
            set(&mut data, "senderCorpId", CORP_ID);
        }
        if let Some(chat) = self.chats.get(&incoming.chat).filter(|chat| chat.is_group) {
            set(&mut data, "conversationType", "2");
            set(&mut data, "conversationTitle", chat.title.as_str());
            set(&mut data, "isInAtList", incoming.mentions_robot);
            set(&mut data, "atUsers", incoming.mentions.clone());
        }
        let mut content = incoming.content.clone();
        if let Some(quoted) = &incoming.quotes {
            self.quote(quoted, &mut content, &mut data);
        }
        let place = if incoming.kind == "text" {
            "text"
        } else {
            "content"
        };
        set(&mut data, place, content);
        data
    }

    /// Queues a callback for connections that subscribed to its topic.
    pub(crate) fn queue_callback(&mut self, topic: &str, data: String) -> usize {
        self.queue(Push::new("CALLBACK", topic, data))
    }

    /// Queues a push for any connection.
    pub(crate) fn force_push(
        &mut self,
        kind: &'static str,
        topic: &str,
        event_type: &str,
        data: &str,
    ) -> usize {
        self.queue(Push {
            is_forced: true,
            event_type: event_type.to_owned(),
            ..Push::new(kind, topic, data.to_owned())
        })
    }

    fn queue(&mut self, push: Push) -> usize {
        self.pushes.push(push);
        self.dispatch();
        self.pushes.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{GROUP, Probe};

    #[test]
    fn groups_deliver_only_mentions() {
        let mut probe = Probe::new();
        probe.connect(0);
        let ann = Person::new("ann", "Ann");
        let unheard = probe.state.push(Incoming::to(GROUP, &ann, "hi"), true);
        assert_eq!((unheard.pushes.len(), probe.frames(0).len()), (0, 0));
        let mention = Incoming::to(GROUP, &ann, "hi").mentioning_robot();
        probe.state.push(mention.mentioning(&ann), true);
        let data = probe.data(0);
        assert_eq!(data["text"], json!({"content": " hi"}));
        assert_eq!(data["atUsers"][1]["staffId"], "ann");
        assert_eq!(
            (&data["conversationType"], &data["isInAtList"]),
            (&json!("2"), &json!(true))
        );
        let eve = Person::external("eve", "Eve");
        probe.state.push(Incoming::direct(&eve, "hi"), true);
        let data = probe.data(0);
        assert_eq!(
            (&data["conversationType"], data.get("senderStaffId")),
            (&json!("1"), None)
        );
    }

    #[test]
    fn files_come_as_codes() {
        let mut probe = Probe::new();
        probe.connect(0);
        let ann = Person::new("ann", "Ann");
        let hello = || Incoming::direct(&ann, "hello");
        let table = [
            (
                hello().with_file("a.txt", "text/plain", "x"),
                "/content/downloadCode",
            ),
            (
                hello().with_picture("image/png", "x"),
                "/content/pictureDownloadCode",
            ),
            (hello().with_video(3, "x"), "/content/downloadCode"),
            (
                hello().with_audio(Some("words"), 1000, "x"),
                "/content/downloadCode",
            ),
            (
                hello().with_rich_picture("image/png", "x"),
                "/content/richText/1/downloadCode",
            ),
        ];
        for (incoming, place) in table {
            probe.state.push(incoming, true);
            let data = probe.data(0);
            let code = data
                .pointer(place)
                .and_then(Value::as_str)
                .unwrap_or_default();
            assert!(probe.state.files.contains_key(code), "{data}");
        }
    }
}
