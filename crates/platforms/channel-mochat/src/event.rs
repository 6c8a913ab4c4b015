//! Events of the socket, sorted by what they mean to a session or a panel.
//!
//! Decision: only an added message becomes a message to the assistant. Changed, recalled and
//! deleted messages change what is still collected, and nothing else.

use nanobot_channel::Value;

use crate::target::Target;
use crate::wire::{Batch, ChatMessage, Event, MESSAGE_ADDED, id_at, text_at};

const SESSION_EVENTS: &str = "claw.session.events";
const PANEL_EVENTS: &str = "claw.panel.events";
const INBOX_APPENDED: &str = "notify:chat.inbox.append";
const NOTIFY_MESSAGE: &str = "notify:chat.";

/// The meaning of an event of the socket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SocketNews {
    /// Events of a session or a panel.
    Batch(Target, Batch),
    /// An event of a panel without a position.
    Panel(String, Event),
    /// A message for the conversation of a session, of which the event may have only a part.
    Inbox {
        /// The conversation.
        converse: String,
        /// The message.
        entry: Value,
    },
}

impl SocketNews {
    /// Reads an event. `None` if it is of no use here.
    pub(crate) fn read(name: &str, argument: Value) -> Option<Self> {
        match name {
            SESSION_EVENTS => {
                let batch = Batch::read(&argument)?;
                Some(Self::Batch(Target::Session(batch.target.clone()), batch))
            }
            PANEL_EVENTS => {
                let batch = Batch::read(&argument)?;
                Some(Self::Batch(Target::Panel(batch.target.clone()), batch))
            }
            INBOX_APPENDED => {
                let is_message = text_at(&argument, &["type"]) == "message";
                let detail = argument.get("payload").filter(|_| is_message)?;
                // Those of groups arrive as messages of their panels, too.
                if id_at(detail, &["groupId"]).is_some() {
                    return None;
                }
                let converse = id_at(detail, &["converseId"])?;
                let entry = argument;
                Some(Self::Inbox { converse, entry })
            }
            _ => {
                let kind = name.strip_prefix(NOTIFY_MESSAGE)?;
                kind.strip_prefix("message.")?;
                id_at(&argument, &["groupId"])?;
                let panel = id_at(&argument, &["converseId", "panelId"])?;
                let event = Event {
                    seq: None,
                    kind: kind.to_owned(),
                    timestamp: Value::Null,
                    payload: argument,
                };
                Some(Self::Panel(panel, event))
            }
        }
    }
}

/// The effect of an event on the messages of its session or panel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// A new message.
    Added(ChatMessage),
    /// Another content of a message.
    Updated {
        /// Its id.
        id: String,
        /// The new content.
        content: Value,
    },
    /// A message is gone.
    Removed(String),
}

impl Change {
    /// Reads an event. `None` if it is about no message.
    pub(crate) fn read(event: &Event) -> Option<Self> {
        let payload = &event.payload;
        let id = || id_at(payload, &["messageId", "_id"]);
        match event.kind.as_str() {
            MESSAGE_ADDED => Some(Self::Added(ChatMessage::read(payload, &event.timestamp))),
            "message.update" => {
                let content = payload.get("content")?.clone();
                Some(Self::Updated { id: id()?, content })
            }
            "message.recall" | "message.delete" => Some(Self::Removed(id()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_sorted_by_target() {
        let panel = |kind: &str, payload: &Value| {
            let event = Event {
                kind: kind.to_owned(),
                payload: payload.clone(),
                ..Event::default()
            };
            Some(SocketNews::Panel("p1".to_owned(), event))
        };
        let batch = |id: &str| Batch {
            target: id.to_owned(),
            ..Batch::default()
        };
        let added = json!({"groupId": "g1", "converseId": "p1", "_id": "m1"});
        let other = json!({"groupId": "g1", "panelId": "p1"});
        let inbox = json!({"type": "message", "payload": {"converseId": "c1"}});
        let in_group = json!({"type": "message", "payload": {"converseId": "c1", "groupId": "g"}});
        let table = [
            (
                SESSION_EVENTS,
                json!({"sessionId": "s1"}),
                Some(SocketNews::Batch(
                    Target::Session("s1".to_owned()),
                    batch("s1"),
                )),
            ),
            (
                PANEL_EVENTS,
                json!({"sessionId": "p1"}),
                Some(SocketNews::Batch(
                    Target::Panel("p1".to_owned()),
                    batch("p1"),
                )),
            ),
            (SESSION_EVENTS, json!([]), None),
            (
                "notify:chat.message.add",
                added.clone(),
                panel("message.add", &added),
            ),
            (
                "notify:chat.message.recall",
                other.clone(),
                panel("message.recall", &other),
            ),
            ("notify:chat.message.add", json!({"converseId": "p1"}), None),
            (
                INBOX_APPENDED,
                inbox.clone(),
                Some(SocketNews::Inbox {
                    converse: "c1".to_owned(),
                    entry: inbox,
                }),
            ),
            (INBOX_APPENDED, in_group, None),
            (
                INBOX_APPENDED,
                json!({"type": "friend", "payload": {"converseId": "c1"}}),
                None,
            ),
            ("notify:chat.typing", other.clone(), None),
            ("event.of.tomorrow", other, None),
        ];
        for (name, argument, expected) in table {
            assert_eq!(
                SocketNews::read(name, argument.clone()),
                expected,
                "{name} {argument}"
            );
        }
    }

    #[test]
    fn only_added_messages_are_new() {
        let change = |kind: &str, payload: Value| {
            let event = Event {
                kind: kind.to_owned(),
                payload,
                ..Event::default()
            };
            Change::read(&event)
        };
        let added = change("message.add", json!({"messageId": "m1"}));
        let message = ChatMessage {
            id: "m1".to_owned(),
            ..ChatMessage::default()
        };
        assert_eq!(added, Some(Change::Added(message)));
        let updated = change("message.update", json!({"_id": "m1", "content": "new"}));
        let expected = Change::Updated {
            id: "m1".to_owned(),
            content: json!("new"),
        };
        assert_eq!(updated, Some(expected));
        for kind in ["message.recall", "message.delete"] {
            let removed = change(kind, json!({"messageId": "m1", "content": "old"}));
            assert_eq!(removed, Some(Change::Removed("m1".to_owned())));
        }
        assert_eq!(change("message.read", json!({"messageId": "m1"})), None);
        assert_eq!(change("message.update", json!({"messageId": "m1"})), None);
        assert_eq!(change("message.recall", json!({})), None);
    }
}
