//! Messages of Stream mode, as far as they are used.
//!
//! Decision: read leniently. A person's message has to arrive whatever DingTalk adds to it, so
//! every field may be missing, and fields of another type count as missing.

use nanobot_channel::Value;
use serde::{Deserialize, Deserializer};

/// The topic of the robot's messages.
pub(crate) const MESSAGE_TOPIC: &str = "/v1.0/im/bot/messages/get";
/// The type of a chat with one person, and of a group.
pub(crate) const PRIVATE: &str = "1";
pub(crate) const GROUP: &str = "2";

/// The chat and the key of a message.
#[derive(Debug, Default)]
pub(crate) struct MessageOrigin {
    /// The lane in which it is handled.
    pub(crate) chat: String,
    /// Its key in the quarantine: the same for repetitions.
    pub(crate) key: String,
}

impl MessageOrigin {
    /// Finds the chat of a message. Does not parse the rest and does not recurse into it.
    pub(crate) fn peek(payload: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Head {
            msg_id: String,
            conversation_id: String,
        }
        let Head {
            msg_id,
            conversation_id,
        } = serde_json::from_str(payload).unwrap_or_default();
        Self {
            chat: conversation_id,
            key: if msg_id.is_empty() {
                payload.to_owned()
            } else {
                msg_id
            },
        }
    }
}

/// A message to the robot.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BotMessage {
    #[serde(deserialize_with = "text")]
    pub(crate) msg_id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) conversation_id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) open_conversation_id: String,
    /// [`PRIVATE`] or [`GROUP`].
    #[serde(deserialize_with = "text")]
    pub(crate) conversation_type: String,
    /// An id that is valid for this robot only; every sender has one.
    #[serde(deserialize_with = "text")]
    pub(crate) sender_id: String,
    /// The id in the organisation; people from outside have none.
    #[serde(deserialize_with = "text")]
    pub(crate) sender_staff_id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) sender_nick: String,
    /// The robot as a sender.
    #[serde(deserialize_with = "text")]
    pub(crate) chatbot_user_id: String,
    /// `true` if the message mentions the robot.
    #[serde(deserialize_with = "flag")]
    pub(crate) is_in_at_list: Option<bool>,
    #[serde(rename = "msgtype", deserialize_with = "text")]
    pub(crate) kind: String,
    /// The content of a text.
    pub(crate) text: Value,
    /// The content of every other type.
    pub(crate) content: Value,
    #[serde(deserialize_with = "text")]
    pub(crate) download_code: String,
    #[serde(deserialize_with = "text")]
    pub(crate) file_name: String,
}

/// Reads a text or a number; anything else is an empty text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_bool())
}

/// Returns a text of an object that is not blank.
pub(crate) fn given<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    let text = value.get(key).and_then(Value::as_str);
    text.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn origin_is_found_without_reading_the_content() {
        let table = [
            (
                json!({"msgId": "m1", "conversationId": "cid1", "content": 5}),
                ("cid1", "m1"),
            ),
            (
                json!({"conversationId": "cid1"}),
                ("cid1", "{\"conversationId\":\"cid1\"}"),
            ),
            (json!({"msgId": 5}), ("", "{\"msgId\":5}")),
            (json!([]), ("", "[]")),
        ];
        for (payload, expected) in table {
            let origin = MessageOrigin::peek(&payload.to_string());
            assert_eq!((origin.chat.as_str(), origin.key.as_str()), expected);
        }
    }

    #[test]
    fn fields_of_another_type_count_as_missing() {
        let message: BotMessage = serde_json::from_value(json!({
            "msgId": "m1", "conversationType": 2, "senderId": null, "senderStaffId": {"x": 1},
            "isInAtList": "yes", "text": "odd", "content": [1], "added": "tomorrow",
        }))
        .unwrap();
        assert_eq!(message.conversation_type, GROUP);
        assert_eq!(
            (message.sender_id.as_str(), message.sender_staff_id.as_str()),
            ("", "")
        );
        assert_eq!(message.is_in_at_list, None);
        assert!(serde_json::from_value::<BotMessage>(json!("text")).is_err());
    }
}
