//! The section of the configuration.
//!
//! `allowFrom`, `groupPolicy` and other rules of access are not here: the supervisor reads them,
//! and answers through [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::settings::Setting;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;
use serde_json::json;

use crate::Secret;

/// The REST API of Discord.
pub(crate) const API_BASE: &str = "https://discord.com/api/v10";
/// Servers, their messages, direct messages, and the text of messages.
const INTENTS: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 15;

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
    /// `true` if the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `true` if a channel is on the list.
    #[must_use]
    pub fn contains(&self, channel: u64) -> bool {
        self.0.iter().any(|entry| match entry {
            ChannelEntry::Number(id) => *id == channel,
            ChannelEntry::Text(text) => text.trim() == "*" || text.trim().parse() == Ok(channel),
        })
    }
}

impl Setting for ChannelList {
    const EXPECTED: &'static str = "write a list of channel ids";

    fn shown(&self) -> Value {
        let id = |entry: &ChannelEntry| match entry {
            ChannelEntry::Number(id) => Value::from(*id),
            ChannelEntry::Text(text) => text.as_str().into(),
        };
        self.0.iter().map(id).collect()
    }

    fn schema() -> Value {
        json!({"type": "array", "items": {"type": ["string", "integer"]}})
    }
}

settings! {
    /// The settings of one bot.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct DiscordConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The bot's token, as the developer portal shows it once.
        token: Secret = Secret::default(),
            credential token "the bot's token: discord.com/developers/applications, your application, Bot, Reset Token";
        /// An HTTP or SOCKS5 proxy, also for the gateway; `""` disables all proxies. Without the
        /// key, `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in
        /// `NO_PROXY` are reached directly.
        proxy: Option<Secret> = None;
        /// The user name for that proxy only.
        proxy_username: Option<String> = None;
        /// The password for that proxy only.
        proxy_password: Option<Secret> = None;
        /// The REST API, with its version.
        api_base: String = API_BASE.to_owned();
        /// The URL of the gateway; without the key, the API returns it.
        gateway_url: Option<String> = None;
        /// The events that Discord sends, as a sum of bits: servers 1, their messages 512, direct
        /// messages 4096, the text of messages 32768. With `4609` only direct messages and mentions
        /// have text, and the privileged intent is not needed.
        intents: u64 = INTENTS;
        /// Ids of the server channels to read, including their threads; empty means all that the
        /// bot can see. Direct messages are always read.
        allow_channels: ChannelList = ChannelList::default();
        /// Reads messages of other bots. Two bots that answer each other do not stop by themselves.
        allow_bots: bool = false;
        /// Quotes the answered message in the reply. This does not ping its author.
        reply_to_message: bool = true;
        /// The reaction to a message until it is answered; `""` for none. An emoji of a server is
        /// written `name:id`.
        read_receipt_emoji: String = "👀".to_owned();
        /// The additional reaction if the answer takes longer; `""` for none.
        working_emoji: String = "🔧".to_owned();
        /// The delay of that reaction in seconds.
        working_emoji_delay: f64 = 2.0,
            within 0.0..=3600.0 => "has to be a number of seconds from 0 up";
        /// Shows the reply while it is generated, by editing one message.
        streaming: bool = true;
        /// Minimum interval between two edits in seconds.
        stream_edit_interval: f64 = 0.8,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
        /// Registers the assistant's commands in Discord's menu. This replaces the application's
        /// whole menu: disable it if another program shares the application.
        slash_commands: bool = true;
        /// Timeout of a request in seconds; files have 90 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
        /// Pause before reconnecting, in seconds; it doubles with each failure, up to 30 s. After a
        /// working connection it is a fifth.
        reconnect_pause: f64 = 0.5,
            within 0.001..=30.0 => "has to be a number of seconds from 0.001 to 30";
    }
    validate Self::validated;
}

impl DiscordConfig {
    fn validated(self) -> Result<Self, ChannelError> {
        if self.token.expose().is_empty() {
            return Err(wrong(
                "token",
                "is empty: put the token here that the bot's page in the developer portal shows",
            ));
        }
        Ok(self)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanobot_channel::ChannelFactory as _;

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
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
    fn default_section_parses_to_default_config() {
        let mut section = crate::DiscordFactory::new().default_config();
        section["token"] = json!("a.b.c");
        let expected = DiscordConfig {
            token: Secret::new("a.b.c"),
            ..DiscordConfig::default()
        };
        assert_eq!(DiscordConfig::from_section(&section).unwrap(), expected);
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
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
            (json!([]), "has to be an object"),
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
    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&DiscordConfig::keys());
        let page = include_str!("../../../../docs/channels/discord.md");
        assert!(
            page.contains(&table),
            "docs/channels/discord.md lacks this table:\n\n{table}"
        );
    }
}
