//! Events of the long connection and messages of the API, as far as they are used.
//!
//! Decision: read leniently. A person's message has to arrive whatever Feishu adds to it, so every
//! field may be missing.

use nanobot_channel::Value;
use serde::{Deserialize, Deserializer};

/// The event of a message.
pub(crate) const MESSAGE_EVENT: &str = "im.message.receive_v1";
/// The event of a pressed button.
pub(crate) const CARD_EVENT: &str = "card.action.trigger";

/// The chat and the key of an event.
#[derive(Debug, Default)]
pub(crate) struct EventOrigin {
    /// The type of the event.
    pub(crate) kind: String,
    /// The lane in which it is handled.
    pub(crate) chat: String,
    /// Its key in the quarantine: the same for repetitions.
    pub(crate) key: String,
}

impl EventOrigin {
    /// Finds the chat of an event. Does not parse the rest and does not recurse into it.
    pub(crate) fn peek(payload: &[u8]) -> Self {
        let Ok(EventHead { header, event }) = serde_json::from_slice(payload) else {
            return Self::default();
        };
        let EventFields { message, context } = event.unwrap_or_default();
        let MessageFields {
            message_id,
            chat_id,
        } = message.unwrap_or_default();
        let ContextFields { open_chat_id } = context.unwrap_or_default();
        let key = match (message_id.as_str(), header.event_id.as_str()) {
            ("", "") => String::from_utf8_lossy(payload).into_owned(),
            ("", event) => format!("event/{event}"),
            (message, _) => message.to_owned(),
        };
        let chat = if chat_id.is_empty() {
            open_chat_id
        } else {
            chat_id
        };
        Self {
            kind: header.event_type,
            chat,
            key,
        }
    }
}

/// The fields of an event that name its chat.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventHead {
    header: EventHeader,
    event: Option<EventFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventFields {
    message: Option<MessageFields>,
    context: Option<ContextFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageFields {
    message_id: String,
    chat_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContextFields {
    open_chat_id: String,
}

/// The header of an event.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EventHeader {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
}

/// An event with its content.
#[derive(Debug, Deserialize)]
pub(crate) struct Event<T> {
    #[serde(default)]
    pub(crate) header: EventHeader,
    pub(crate) event: T,
}

/// The event of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessageEvent {
    pub(crate) sender: Sender,
    pub(crate) message: Message,
}

/// The sender of an event's message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Sender {
    pub(crate) sender_id: PersonId,
    pub(crate) sender_type: String,
}

/// The ids of a person or a bot.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersonId {
    #[serde(deserialize_with = "text")]
    pub(crate) open_id: String,
}

/// A message of an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message {
    pub(crate) message_id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) root_id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) parent_id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) thread_id: String,
    pub(crate) chat_id: String,
    pub(crate) chat_type: String,
    pub(crate) message_type: String,
    /// JSON in a text.
    #[serde(deserialize_with = "text")]
    pub(crate) content: String,
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) mentions: Vec<Mention>,
}

/// A person who is mentioned, and the placeholder in the text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Mention {
    pub(crate) key: String,
    pub(crate) name: String,
    /// The ids in an event; the open id alone in a message of the API.
    #[serde(deserialize_with = "open_id")]
    pub(crate) id: String,
}

/// A message of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoredMessage {
    pub(crate) message_id: String,
    /// The message that was forwarded with this one in it.
    #[serde(deserialize_with = "text")]
    pub(crate) upper_message_id: String,
    pub(crate) msg_type: String,
    pub(crate) body: StoredBody,
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) mentions: Vec<Mention>,
    pub(crate) deleted: bool,
}

/// The content of a message of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoredBody {
    /// JSON in a text.
    #[serde(deserialize_with = "text")]
    pub(crate) content: String,
}

/// A list of messages of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoredMessages {
    pub(crate) items: Vec<StoredMessage>,
}

/// A press of a button of a card.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CardAction {
    pub(crate) operator: PersonId,
    pub(crate) action: PressedElement,
    pub(crate) context: CardContext,
}

/// The element of a card that was used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PressedElement {
    pub(crate) tag: String,
    pub(crate) value: Value,
}

/// The place of a card.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CardContext {
    #[serde(deserialize_with = "text")]
    pub(crate) open_message_id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) open_chat_id: String,
}

/// Reads a text; anything else is an empty one.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        _ => String::new(),
    })
}

/// Reads the entries of a list that can be read.
fn lenient_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let list = match Value::deserialize(deserializer)? {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    let entries = list.into_iter().map(serde_json::from_value);
    Ok(entries.filter_map(Result::ok).collect())
}

/// Reads an open id, alone or among others.
fn open_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(id) => id,
        Value::Object(ids) => match ids.get("open_id") {
            Some(Value::String(id)) => id.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn origin_is_found_without_reading_the_content() {
        let table = [
            (
                json!({"header": {"event_id": "e1", "event_type": MESSAGE_EVENT},
                       "event": {"message": {"message_id": "om_1", "chat_id": "oc_1", "content": 5}}}),
                (MESSAGE_EVENT, "oc_1", "om_1"),
            ),
            (
                json!({"header": {"event_id": "e2", "event_type": CARD_EVENT},
                       "event": {"context": {"open_chat_id": "oc_2"}}}),
                (CARD_EVENT, "oc_2", "event/e2"),
            ),
            (
                json!({"header": {"event_id": "e3", "event_type": "x"}, "event": null}),
                ("x", "", "event/e3"),
            ),
            (json!([]), ("", "", "[]")),
            (json!(5), ("", "", "")),
            (json!({}), ("", "", "{}")),
        ];
        for (payload, (kind, chat, key)) in table {
            let origin = EventOrigin::peek(payload.to_string().as_bytes());
            let found = (
                origin.kind.as_str(),
                origin.chat.as_str(),
                origin.key.as_str(),
            );
            assert_eq!(found, (kind, chat, key), "{payload}");
        }
    }

    #[test]
    fn fields_of_another_type_count_as_missing() {
        let message: Message = serde_json::from_value(json!({
            "message_id": "om_1", "root_id": null, "content": {"text": "x"},
            "mentions": [{"key": "@_user_1", "id": {"open_id": "ou_1"}, "name": "Ann"}, 5,
                         {"key": "@_user_2", "id": "ou_2"}, {"key": 7}],
        }))
        .unwrap();
        let ids: Vec<_> = message
            .mentions
            .iter()
            .map(|mention| mention.id.as_str())
            .collect();
        assert_eq!(
            (ids.as_slice(), message.content.as_str()),
            (["ou_1", "ou_2"].as_slice(), "")
        );
    }
}
