//! The section of the configuration.
//!
//! `allowFrom` is not here: whoever runs the channel reads it, and answers through
//! [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::{ChannelError, Map, Value};
use serde::Deserialize;

use crate::Secret;

/// The server of Telegram.
pub(crate) const API_BASE: &str = "https://api.telegram.org";
const SHORTEST_EDIT_INTERVAL: f64 = 0.1;
/// The longest poll that the server keeps open, in seconds.
const LONGEST_POLL: u32 = 50;

/// Which messages of a group are for the assistant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupPolicy {
    /// Those that mention the bot or reply to it.
    #[default]
    Mention,
    /// All that the bot sees.
    Open,
}

/// A list of chats by id; `*` is every chat.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ChatList(Vec<ChatEntry>);

/// Ids are often written without quotes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum ChatEntry {
    Number(i64),
    Text(String),
}

impl ChatList {
    /// Whether a chat is on the list.
    #[must_use]
    pub fn contains(&self, chat: i64) -> bool {
        self.0.iter().any(|entry| match entry {
            ChatEntry::Number(id) => *id == chat,
            ChatEntry::Text(text) => text == "*" || text.trim().parse() == Ok(chat),
        })
    }
}

/// The settings of one bot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TelegramConfig {
    /// Whether the channel runs at all.
    pub enabled: bool,
    /// The token of the bot, as BotFather gave it.
    pub token: Secret,
    /// An HTTP or SOCKS5 proxy for this channel alone, before the one that all clients use.
    pub proxy: Option<Secret>,
    /// The Bot API server, without `/bot<token>`.
    pub api_base: String,
    /// Whether replies quote the message they answer.
    pub reply_to_message: bool,
    /// Which messages of a group are for the assistant. Commands always are.
    pub group_policy: GroupPolicy,
    /// The only groups the assistant answers in; every group when the key is not there.
    pub group_allow_from: Option<ChatList>,
    /// The reaction that a message carries while it is worked on.
    pub react_emoji: Option<String>,
    /// Whether text is shown while it is being written.
    pub streaming: bool,
    /// The shortest time between two edits of such a text in a private chat, in seconds.
    pub stream_edit_interval: f64,
    /// How long the server keeps a poll open when there is no news, in seconds, at most 50.
    pub poll_timeout: u32,
    /// How long an answer may take, in seconds; polls have their own time on top of it.
    pub request_timeout: f64,
}

impl Default for TelegramConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            token: Secret::default(),
            proxy: None,
            api_base: API_BASE.to_owned(),
            reply_to_message: false,
            group_policy: GroupPolicy::default(),
            group_allow_from: None,
            react_emoji: None,
            streaming: true,
            stream_edit_interval: 0.6,
            poll_timeout: 25,
            request_timeout: 30.0,
        }
    }
}

impl TelegramConfig {
    /// Reads a section. `null` says nothing, unknown keys are left alone.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn from_section(section: &Value) -> Result<Self, ChannelError> {
        let keys: Map = match section {
            Value::Null => Map::new(),
            Value::Object(keys) => {
                keys.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), v.clone())).collect()
            }
            _ => return Err(wrong("", "has to be an object")),
        };
        let config: Self = serde_json::from_value(Value::Object(keys.clone())).map_err(|error| blame(keys, &error))?;
        config.validated()
    }

    fn validated(self) -> Result<Self, ChannelError> {
        if self.token.expose().is_empty() {
            return Err(wrong("token", "is empty: put the token here that @BotFather gave for the bot"));
        }
        if !(SHORTEST_EDIT_INTERVAL..=3600.0).contains(&self.stream_edit_interval) {
            return Err(wrong("streamEditInterval", "has to be a number of seconds from 0.1 up"));
        }
        if !(0.1..=3600.0).contains(&self.request_timeout) {
            return Err(wrong("requestTimeout", "has to be a number of seconds from 0.1 up"));
        }
        if self.poll_timeout > LONGEST_POLL {
            return Err(wrong("pollTimeout", "has to be a whole number of seconds up to 50"));
        }
        Ok(self)
    }

    pub(crate) fn edit_interval(&self) -> Duration {
        Duration::from_secs_f64(self.stream_edit_interval)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

/// An error about one key.
pub(crate) fn wrong(key: &str, message: &str) -> ChannelError {
    ChannelError::Config { key: key.to_owned(), message: message.to_owned() }
}

/// Finds the key that does not read. The value stays out of the text: it may be a secret.
fn blame(keys: Map, error: &serde_json::Error) -> ChannelError {
    let reads = |key: &str, value: Value| {
        serde_json::from_value::<TelegramConfig>(Value::Object(Map::from_iter([(key.to_owned(), value)]))).is_ok()
    };
    for (key, value) in keys {
        let kind = match &value {
            Value::String(_) => "a text",
            Value::Number(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Array(_) => "a list",
            Value::Object(_) | Value::Null => "an object",
        };
        if !reads(&key, value) {
            return wrong(&key, &format!("holds {kind} that cannot be used here; {}", expected(&key)));
        }
    }
    wrong("", &format!("cannot be read at column {}", error.column()))
}

fn expected(key: &str) -> &'static str {
    match key {
        "enabled" | "replyToMessage" | "streaming" => "write true or false",
        "groupPolicy" => "write \"mention\" or \"open\"",
        "groupAllowFrom" => "write a list of chat ids",
        "streamEditInterval" | "pollTimeout" | "requestTimeout" => "write a number of seconds",
        _ => "write a text in quotes",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_section_is_read_with_defaults_and_unknown_keys() {
        let section = json!({
            "enabled": true, "token": "1:x", "allowFrom": [1], "proxy": null, "groupPolicy": "open", "mode": "polling",
            "groupAllowFrom": [-100, "-200"], "streaming": null,
        });
        let config = TelegramConfig::from_section(&section).unwrap();
        let groups = config.group_allow_from.clone().unwrap();
        assert_eq!([-100, -200, -300].map(|chat| groups.contains(chat)), [true, true, false]);
        let expected = TelegramConfig {
            enabled: true,
            token: Secret::new("1:x"),
            group_policy: GroupPolicy::Open,
            group_allow_from: Some(groups),
            ..TelegramConfig::default()
        };
        assert_eq!(config, expected);
        assert!(serde_json::from_value::<ChatList>(json!(["*"])).unwrap().contains(5));
    }

    #[test]
    fn what_cannot_work_is_named_without_its_value() {
        let table = [
            (json!({"token": 5}), "token: holds a number that cannot be used here; write a text in quotes"),
            (json!({}), "token: is empty: put the token here that @BotFather gave for the bot"),
            (
                json!({"token": "s3cret", "groupPolicy": "s3cret"}),
                "groupPolicy: holds a text that cannot be used here; write \"mention\" or \"open\"",
            ),
            (
                json!({"token": "s3cret", "streamEditInterval": 0}),
                "streamEditInterval: has to be a number of seconds from 0.1 up",
            ),
            (
                json!({"token": "s3cret", "requestTimeout": 0}),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
            (
                json!({"token": "s3cret", "pollTimeout": 51}),
                "pollTimeout: has to be a whole number of seconds up to 50",
            ),
            (
                json!({"token": "s3cret", "groupAllowFrom": "all"}),
                "groupAllowFrom: holds a text that cannot be used here; write a list of chat ids",
            ),
            (json!([]), ": has to be an object"),
        ];
        for (section, text) in table {
            assert_eq!(TelegramConfig::from_section(&section).unwrap_err().to_string(), text);
        }
    }
}
