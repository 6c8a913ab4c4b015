//! The section of the configuration.
//!
//! `allowFrom`, `groupPolicy` and what else decides who may talk are not here: whoever runs the
//! channel reads them, and answers through [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{read_section, wrong};
use serde::Deserialize;

use crate::Secret;

/// The REST API of Discord.
pub(crate) const API_BASE: &str = "https://discord.com/api/v10";
/// Servers, their messages, direct messages, and the text of messages.
const INTENTS: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 15;
/// The shortest time between two edits of a draft, in seconds.
const SHORTEST_EDIT_INTERVAL: f64 = 0.1;

/// A list of channels by id; `*` is every channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ChannelList(Vec<ChannelEntry>);

/// Ids are often written without quotes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum ChannelEntry {
    Number(u64),
    Text(String),
}

impl ChannelList {
    /// Whether nothing is on the list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a channel is on the list.
    #[must_use]
    pub fn contains(&self, channel: u64) -> bool {
        self.0.iter().any(|entry| match entry {
            ChannelEntry::Number(id) => *id == channel,
            ChannelEntry::Text(text) => text.trim() == "*" || text.trim().parse() == Ok(channel),
        })
    }
}

/// The settings of one bot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscordConfig {
    /// Whether the channel runs at all.
    pub enabled: bool,
    /// The token of the bot, as the developer portal shows it once.
    pub token: Secret,
    /// An HTTP or SOCKS5 proxy for this channel alone, before the one that all clients use.
    pub proxy: Option<Secret>,
    /// The name to use at that proxy.
    pub proxy_username: Option<String>,
    /// The password to use at that proxy.
    pub proxy_password: Option<Secret>,
    /// The REST API, with its version.
    pub api_base: String,
    /// The gateway; asked from the API when it is not set.
    pub gateway_url: Option<String>,
    /// What the gateway tells of, as Discord numbers it.
    pub intents: u64,
    /// The only channels of servers that are listened to, with their threads; all when empty.
    pub allow_channels: ChannelList,
    /// Whether other bots are listened to.
    pub allow_bots: bool,
    /// Whether replies quote the message they answer.
    pub reply_to_message: bool,
    /// The reaction that a message carries until it is answered; empty for none.
    pub read_receipt_emoji: String,
    /// The reaction that joins it when answering takes longer; empty for none.
    pub working_emoji: String,
    /// What "longer" is, in seconds.
    pub working_emoji_delay: f64,
    /// Whether text is shown while it is being written.
    pub streaming: bool,
    /// The shortest time between two edits of such a text, in seconds.
    pub stream_edit_interval: f64,
    /// Whether the assistant's commands are put into Discord's menu.
    pub slash_commands: bool,
    /// How long an answer of the API may take, in seconds; files have their own time on top of it.
    pub request_timeout: f64,
    /// The pause before a lost connection is made again, in seconds; after a good one a fifth of it, and
    /// twice as much with each that comes to nothing.
    pub reconnect_pause: f64,
}

impl Default for DiscordConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            token: Secret::default(),
            proxy: None,
            proxy_username: None,
            proxy_password: None,
            api_base: API_BASE.to_owned(),
            gateway_url: None,
            intents: INTENTS,
            allow_channels: ChannelList::default(),
            allow_bots: false,
            reply_to_message: true,
            read_receipt_emoji: "👀".to_owned(),
            working_emoji: "🔧".to_owned(),
            working_emoji_delay: 2.0,
            streaming: true,
            stream_edit_interval: 0.8,
            slash_commands: true,
            request_timeout: 30.0,
            reconnect_pause: 0.5,
        }
    }
}

impl DiscordConfig {
    /// Reads a section, its keys in camelCase or snake_case. `null` says nothing, unknown keys are
    /// left alone.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn from_section(section: &Value) -> Result<Self, ChannelError> {
        read_section::<Self>(section, expected)?.validated()
    }

    fn validated(self) -> Result<Self, ChannelError> {
        if self.token.expose().is_empty() {
            return Err(wrong(
                "token",
                "is empty: put the token here that the bot's page in the developer portal shows",
            ));
        }
        if !(SHORTEST_EDIT_INTERVAL..=3600.0).contains(&self.stream_edit_interval) {
            return Err(wrong(
                "streamEditInterval",
                "has to be a number of seconds from 0.1 up",
            ));
        }
        if !(0.1..=3600.0).contains(&self.request_timeout) {
            return Err(wrong(
                "requestTimeout",
                "has to be a number of seconds from 0.1 up",
            ));
        }
        if !(0.001..=30.0).contains(&self.reconnect_pause) {
            return Err(wrong(
                "reconnectPause",
                "has to be a number of seconds from 0.001 to 30",
            ));
        }
        if !(0.0..=3600.0).contains(&self.working_emoji_delay) {
            return Err(wrong(
                "workingEmojiDelay",
                "has to be a number of seconds from 0 up",
            ));
        }
        Ok(self)
    }

    pub(crate) fn edit_interval(&self) -> Duration {
        Duration::from_secs_f64(self.stream_edit_interval)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }

    pub(crate) fn reconnect_pause(&self) -> Duration {
        Duration::from_secs_f64(self.reconnect_pause)
    }

    pub(crate) fn working_emoji_delay(&self) -> Duration {
        Duration::from_secs_f64(self.working_emoji_delay)
    }
}

/// What to write under a key.
fn expected(key: &str) -> &'static str {
    match key {
        "enabled" | "allowBots" | "replyToMessage" | "streaming" | "slashCommands" => {
            "write true or false"
        }
        "allowChannels" => "write a list of channel ids",
        "intents" => "write a whole number",
        "workingEmojiDelay" | "streamEditInterval" | "requestTimeout" | "reconnectPause" => {
            "write a number of seconds"
        }
        _ => "write a text in quotes",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_section_is_read_in_both_spellings_with_defaults_and_unknown_keys() {
        let section = json!({
            "enabled": true, "token": "a.b.c", "allowFrom": [1], "proxy": null, "groupPolicy": "open",
            "allow_channels": [5, "6"], "workingEmojiDelay": 1, "read_receipt_emoji": "", "streaming": null,
        });
        let config = DiscordConfig::from_section(&section).unwrap();
        let channels = config.allow_channels.clone();
        assert_eq!(
            [5, 6, 7].map(|channel| channels.contains(channel)),
            [true, true, false]
        );
        let expected = DiscordConfig {
            enabled: true,
            token: Secret::new("a.b.c"),
            allow_channels: channels,
            working_emoji_delay: 1.0,
            read_receipt_emoji: String::new(),
            ..DiscordConfig::default()
        };
        assert_eq!(config, expected);
        assert_eq!(config.intents, 37377);
        assert!(
            serde_json::from_value::<ChannelList>(json!(["*"]))
                .unwrap()
                .contains(5)
        );
    }

    #[test]
    fn what_cannot_work_is_named_without_its_value() {
        let table = [
            (
                json!({"token": 5}),
                "token: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                json!({}),
                "token: is empty: put the token here that the bot's page in the developer portal shows",
            ),
            (
                json!({"token": "s3cret", "intents": "s3cret"}),
                "intents: holds a text that cannot be used here; write a whole number",
            ),
            (
                json!({"token": "s3cret", "stream_edit_interval": 0}),
                "streamEditInterval: has to be a number of seconds from 0.1 up",
            ),
            (
                json!({"token": "s3cret", "requestTimeout": 0}),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
            (
                json!({"token": "s3cret", "reconnectPause": 0}),
                "reconnectPause: has to be a number of seconds from 0.001 to 30",
            ),
            (
                json!({"token": "s3cret", "workingEmojiDelay": -1}),
                "workingEmojiDelay: has to be a number of seconds from 0 up",
            ),
            (
                json!({"token": "s3cret", "allowChannels": "all"}),
                "allowChannels: holds a text that cannot be used here; write a list of channel ids",
            ),
            (json!([]), ": has to be an object"),
        ];
        for (section, text) in table {
            assert_eq!(
                DiscordConfig::from_section(&section)
                    .unwrap_err()
                    .to_string(),
                text
            );
        }
    }
}
