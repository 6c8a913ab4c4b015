//! Messages of the gateway, as far as they are used.
//!
//! Decision: read leniently. A person's message has to arrive whatever QQ adds to it, so every
//! field may be missing, and fields of another type count as missing.

use nanobot_channel::Value;
use serde::{Deserialize, Deserializer};

/// The kind of a message, by the name of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// To the bot alone.
    Direct,
    /// In a group, with a mention of the bot.
    GroupMention,
    /// In a group whose messages the bot may read.
    Group,
    /// To the bot alone, from a member of a guild.
    GuildDirect,
}

impl EventKind {
    /// Returns the kind; `None` for other events.
    pub(crate) fn new(event: &str) -> Option<Self> {
        Some(match event {
            "C2C_MESSAGE_CREATE" => Self::Direct,
            "GROUP_AT_MESSAGE_CREATE" => Self::GroupMention,
            "GROUP_MESSAGE_CREATE" => Self::Group,
            "DIRECT_MESSAGE_CREATE" => Self::GuildDirect,
            _ => return None,
        })
    }
}

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
        #[serde(default)]
        struct Head {
            id: String,
            group_openid: String,
            author: Author,
        }
        let head: Head = serde_json::from_str(payload).unwrap_or_default();
        let person = [&head.author.user_openid, &head.author.id];
        let person = person.into_iter().find(|id| !id.is_empty());
        Self {
            chat: if head.group_openid.is_empty() {
                person.cloned().unwrap_or_default()
            } else {
                head.group_openid
            },
            key: if head.id.is_empty() {
                payload.to_owned()
            } else {
                head.id
            },
        }
    }
}

/// A message to the bot.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message {
    #[serde(deserialize_with = "text")]
    pub(crate) id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) content: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) author: Author,
    /// The group.
    #[serde(deserialize_with = "text")]
    pub(crate) group_openid: String,
    /// The guild by which QQ names a conversation with one member.
    #[serde(deserialize_with = "text")]
    pub(crate) guild_id: String,
    #[serde(deserialize_with = "list")]
    pub(crate) attachments: Vec<FileEntry>,
    #[serde(deserialize_with = "list")]
    pub(crate) mentions: Vec<Mention>,
    /// Quoted messages.
    #[serde(deserialize_with = "list")]
    pub(crate) msg_elements: Vec<QuotedMessage>,
    /// A card.
    pub(crate) ark_data: Value,
}

/// The sender of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Author {
    /// The id in guilds.
    #[serde(deserialize_with = "text")]
    pub(crate) id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) user_openid: String,
    #[serde(deserialize_with = "text")]
    pub(crate) member_openid: String,
    #[serde(deserialize_with = "text")]
    pub(crate) username: String,
    #[serde(deserialize_with = "flag")]
    pub(crate) bot: bool,
}

/// A mentioned member.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Mention {
    #[serde(deserialize_with = "text")]
    pub(crate) id: String,
    #[serde(deserialize_with = "text")]
    pub(crate) member_openid: String,
    #[serde(deserialize_with = "flag")]
    pub(crate) is_you: bool,
}

/// A file of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileEntry {
    #[serde(deserialize_with = "text")]
    pub(crate) url: String,
    #[serde(deserialize_with = "text")]
    pub(crate) filename: String,
    /// A media type, or one of the words `voice` and `file`.
    #[serde(deserialize_with = "text")]
    pub(crate) content_type: String,
    #[serde(deserialize_with = "number")]
    pub(crate) size: u64,
    /// A recording in a common format.
    #[serde(deserialize_with = "text")]
    pub(crate) voice_wav_url: String,
    /// The words that QQ recognised in a recording.
    #[serde(deserialize_with = "text")]
    pub(crate) asr_refer_text: String,
}

/// A quoted message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct QuotedMessage {
    #[serde(deserialize_with = "text")]
    pub(crate) content: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) author: Author,
    #[serde(deserialize_with = "list")]
    pub(crate) attachments: Vec<FileEntry>,
}

/// Reads a text or a number; anything else is an empty text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

/// Reads a number, also one in a text; anything else is 0.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text.trim().parse().unwrap_or_default(),
        Value::Number(number) => number.as_u64().unwrap_or_default(),
        _ => 0,
    })
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(deserializer)? == Value::Bool(true))
}

fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + serde::de::DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Most entries of a list that are read.
const MAX_ENTRIES: usize = 64;

/// Reads a list without the entries of another type.
fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let Value::Array(entries) = Value::deserialize(deserializer)? else {
        return Ok(Vec::new());
    };
    let entries = entries.into_iter().take(MAX_ENTRIES);
    Ok(entries
        .filter_map(|entry| serde_json::from_value(entry).ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn origin_is_found_without_reading_the_content() {
        let table = [
            (
                json!({"id": "m1", "group_openid": "G", "author": {"member_openid": "M"}, "attachments": 5}),
                ("G", "m1"),
            ),
            (
                json!({"id": "m1", "author": {"id": "U", "user_openid": "U"}}),
                ("U", "m1"),
            ),
            (json!({"id": "m1", "author": {"id": "7"}}), ("7", "m1")),
            (json!({"author": {}}), ("", "{\"author\":{}}")),
            (json!([]), ("", "[]")),
        ];
        for (payload, expected) in table {
            let origin = MessageOrigin::peek(&payload.to_string());
            assert_eq!((origin.chat.as_str(), origin.key.as_str()), expected);
        }
    }

    #[test]
    fn fields_of_another_type_count_as_missing() {
        let message: Message = serde_json::from_value(json!({
            "id": "m1", "content": ["x"], "author": "odd", "group_openid": 5, "mentions": {"is_you": true},
            "attachments": [5, {"url": "u", "size": "9", "filename": null}], "msg_elements": null,
            "added": "tomorrow",
        }))
        .unwrap();
        assert_eq!(
            (message.content.as_str(), message.group_openid.as_str()),
            ("", "5")
        );
        let [file] = message.attachments.as_slice() else {
            panic!("{message:?}");
        };
        assert_eq!((file.url.as_str(), file.size), ("u", 9));
        assert!(message.mentions.is_empty() && message.msg_elements.is_empty());
        assert!(serde_json::from_value::<Message>(json!("text")).is_err());
    }

    #[test]
    fn lists_are_bounded() {
        let files = vec![json!({"url": "u"}); 5000];
        let message = json!({"id": "m1", "attachments": files});
        let message: Message = serde_json::from_value(message).unwrap();
        assert_eq!(message.attachments.len(), MAX_ENTRIES);
    }
}
