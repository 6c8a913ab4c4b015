//! The section of the configuration.
//!
//! `allowFrom` and the rules of groups are not here: whoever runs the channel reads them, and answers
//! through [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{read_section, wrong};
use serde::Deserialize;

use crate::Secret;

/// The server of Telegram.
pub(crate) const API_BASE: &str = "https://api.telegram.org";
const SHORTEST_EDIT_INTERVAL: f64 = 0.1;
/// The longest poll that the server keeps open, in seconds.
const LONGEST_POLL: u32 = 50;
const LARGEST_POOL: u32 = 1000;
const LONGEST_SECRET: usize = 256;

/// How updates come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The channel asks for them, and needs no address of its own.
    #[default]
    Polling,
    /// Telegram posts them to an address that the world can reach.
    Webhook,
}

/// The settings of one bot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TelegramConfig {
    /// Whether the channel runs at all.
    pub enabled: bool,
    /// The token of the bot, as BotFather gave it.
    pub token: Secret,
    /// How updates come.
    pub mode: Mode,
    /// An HTTP or SOCKS5 proxy for this channel alone, before the one that all clients use.
    pub proxy: Option<Secret>,
    /// The Bot API server, without `/bot<token>`.
    pub api_base: String,
    /// Whether replies quote the message they answer.
    pub reply_to_message: bool,
    /// The reaction that a message carries while it is worked on; none when empty.
    pub react_emoji: String,
    /// Whether choices are buttons below a message rather than words in it.
    pub inline_keyboards: bool,
    /// Whether text is shown while it is being written.
    pub streaming: bool,
    /// The shortest time between two edits of such a text in a private chat, in seconds.
    pub stream_edit_interval: f64,
    /// How long the server keeps a poll open when there is no news, in seconds, at most 50.
    pub poll_timeout: u32,
    /// How long an answer may take, in seconds; polls have their own time on top of it.
    pub request_timeout: f64,
    /// The pause before a failed poll is repeated, in seconds; twice as much with each that fails.
    pub reconnect_pause: f64,
    /// The most requests under way at a time, polls aside.
    pub connection_pool_size: u32,
    /// How long a request waits for its place among them, in seconds.
    pub pool_timeout: f64,
    /// The `https` address that Telegram posts updates to.
    pub webhook_url: String,
    /// The address of this machine where they are taken in, behind whatever ends TLS.
    pub webhook_listen_host: String,
    /// The port there.
    pub webhook_listen_port: u16,
    /// The path there.
    pub webhook_path: String,
    /// What Telegram shows with every post, so that others are told apart from it.
    pub webhook_secret_token: Secret,
    /// The most posts under way at a time.
    pub webhook_max_connections: u8,
}

impl Default for TelegramConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            token: Secret::default(),
            mode: Mode::default(),
            proxy: None,
            api_base: API_BASE.to_owned(),
            reply_to_message: false,
            react_emoji: "👀".to_owned(),
            inline_keyboards: false,
            streaming: true,
            stream_edit_interval: 0.6,
            poll_timeout: 25,
            request_timeout: 30.0,
            reconnect_pause: 0.5,
            connection_pool_size: 32,
            pool_timeout: 5.0,
            webhook_url: String::new(),
            webhook_listen_host: "127.0.0.1".to_owned(),
            webhook_listen_port: 8081,
            webhook_path: "/telegram".to_owned(),
            webhook_secret_token: Secret::default(),
            webhook_max_connections: 4,
        }
    }
}

impl TelegramConfig {
    /// Reads a section. `null` says nothing, unknown keys are left alone.
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
                "is empty: put the token here that @BotFather gave for the bot",
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
        if self.poll_timeout > LONGEST_POLL {
            return Err(wrong(
                "pollTimeout",
                "has to be a whole number of seconds up to 50",
            ));
        }
        if !(1..=LARGEST_POOL).contains(&self.connection_pool_size) {
            return Err(wrong(
                "connectionPoolSize",
                "has to be a whole number from 1 to 1000",
            ));
        }
        if !(0.0..=3600.0).contains(&self.pool_timeout) {
            return Err(wrong(
                "poolTimeout",
                "has to be a number of seconds from 0 up",
            ));
        }
        if self.mode == Mode::Webhook {
            self.check_webhook()?;
        }
        Ok(self)
    }

    fn check_webhook(&self) -> Result<(), ChannelError> {
        let url = reqwest::Url::parse(self.webhook_url.trim()).ok();
        if !url.is_some_and(|url| url.scheme() == "https" && url.has_host()) {
            let advice = "write the https address by which Telegram reaches webhookListenPort, such as https://bot.example.org/telegram";
            return Err(wrong("webhookUrl", advice));
        }
        let secret = self.webhook_secret_token.expose();
        let is_word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
        if !(1..=LONGEST_SECRET).contains(&secret.len()) || !secret.bytes().all(is_word) {
            return Err(wrong(
                "webhookSecretToken",
                "write 1 to 256 letters, digits, _ or -, and tell nobody",
            ));
        }
        if self.webhook_listen_host.trim().is_empty() {
            return Err(wrong(
                "webhookListenHost",
                "is empty: write 127.0.0.1 when a proxy on this machine ends TLS",
            ));
        }
        if !self.webhook_path.starts_with('/') {
            return Err(wrong("webhookPath", "has to begin with /"));
        }
        if !(1..=100).contains(&self.webhook_max_connections) {
            return Err(wrong(
                "webhookMaxConnections",
                "has to be a whole number from 1 to 100",
            ));
        }
        Ok(())
    }

    /// The id of the bot, which is what stands in front of the secret part of its token.
    pub(crate) fn bot_id(&self) -> &str {
        self.token
            .expose()
            .split_once(':')
            .map(|(id, _)| id)
            .unwrap_or_default()
    }

    /// The reaction to what is worked on.
    pub(crate) fn reaction(&self) -> Option<&str> {
        Some(self.react_emoji.trim()).filter(|emoji| !emoji.is_empty())
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

    pub(crate) fn pool_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.pool_timeout)
    }
}

/// What to write under a key.
fn expected(key: &str) -> &'static str {
    match key {
        "enabled" | "replyToMessage" | "streaming" | "inlineKeyboards" => "write true or false",
        "mode" => "write \"polling\" or \"webhook\"",
        "streamEditInterval" | "pollTimeout" | "requestTimeout" | "reconnectPause"
        | "poolTimeout" => "write a number of seconds",
        "connectionPoolSize" | "webhookListenPort" | "webhookMaxConnections" => {
            "write a whole number"
        }
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
            "streaming": null, "inline_keyboards": true, "pool_timeout": 1,
        });
        let config = TelegramConfig::from_section(&section).unwrap();
        let expected = TelegramConfig {
            enabled: true,
            token: Secret::new("1:x"),
            inline_keyboards: true,
            pool_timeout: 1.0,
            ..TelegramConfig::default()
        };
        assert_eq!(config, expected);
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
                "token: is empty: put the token here that @BotFather gave for the bot",
            ),
            (
                json!({"token": "s3cret", "streaming": "s3cret"}),
                "streaming: holds a text that cannot be used here; write true or false",
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
                json!({"token": "s3cret", "reconnectPause": 31}),
                "reconnectPause: has to be a number of seconds from 0.001 to 30",
            ),
            (
                json!({"token": "s3cret", "pollTimeout": 51}),
                "pollTimeout: has to be a whole number of seconds up to 50",
            ),
            (
                json!({"token": "s3cret", "mode": "push"}),
                "mode: holds a text that cannot be used here; write \"polling\" or \"webhook\"",
            ),
            (
                json!({"token": "s3cret", "connectionPoolSize": 0}),
                "connectionPoolSize: has to be a whole number from 1 to 1000",
            ),
            (
                json!({"token": "s3cret", "mode": "webhook", "webhookUrl": "http://bot.test"}),
                "webhookUrl: write the https address by which Telegram reaches webhookListenPort, such as \
                 https://bot.example.org/telegram",
            ),
            (
                json!({"token": "s3cret", "mode": "webhook", "webhookUrl": "https://bot.test", "webhookSecretToken": "a b"}),
                "webhookSecretToken: write 1 to 256 letters, digits, _ or -, and tell nobody",
            ),
            (json!([]), ": has to be an object"),
        ];
        for (section, text) in table {
            assert_eq!(
                TelegramConfig::from_section(&section)
                    .unwrap_err()
                    .to_string(),
                text
            );
        }
    }
}
