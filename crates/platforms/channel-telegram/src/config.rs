//! The section of the configuration.
//!
//! `allowFrom` and the rules of groups are not here: the supervisor reads them, and answers through
//! [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::settings::Setting;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;
use serde_json::json;

use crate::Secret;

/// The server of Telegram.
pub(crate) const API_BASE: &str = "https://api.telegram.org";
const LONGEST_SECRET: usize = 256;

/// The way of receiving updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The channel polls, and needs no public address.
    #[default]
    Polling,
    /// Telegram posts them to a public address.
    Webhook,
}

impl Setting for Mode {
    const EXPECTED: &'static str = "write \"polling\" or \"webhook\"";

    fn shown(&self) -> Value {
        match self {
            Self::Polling => "polling".into(),
            Self::Webhook => "webhook".into(),
        }
    }

    fn schema() -> Value {
        json!({"enum": ["polling", "webhook"]})
    }
}

settings! {
    /// The settings of one bot.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct TelegramConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The bot's token, from @BotFather.
        token: Secret = Secret::default(),
            credential token "the bot's token, which @BotFather on Telegram gives for /newbot, or /token for a bot that exists";
        /// How updates arrive: `polling`, or `webhook` through a public address.
        mode: Mode = Mode::default();
        /// `http://…`, `socks5://…`, or `socks5h://…`, which resolves names at the proxy; user and
        /// password go in front of the host. `""` disables all proxies. Without the key,
        /// `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in `NO_PROXY` are
        /// reached directly.
        proxy: Option<Secret> = None;
        /// The Bot API server, without `/bot<token>`.
        api_base: String = API_BASE.to_owned();
        /// Quotes the answered message in the reply.
        reply_to_message: bool = false;
        /// The reaction to a message until it is answered; `""` for none. Telegram allows only
        /// [some emoji](https://core.telegram.org/bots/api#reactiontypeemoji).
        react_emoji: String = "👀".to_owned();
        /// Shows choices as buttons.
        inline_keyboards: bool = false;
        /// Shows the reply while it is generated.
        streaming: bool = true;
        /// Shows growing replies in private chats as native drafts; `false`: as messages that are
        /// edited.
        native_drafts: bool = true;
        /// Minimum interval between two texts in seconds, at least 0.1; 3 s in groups, because
        /// Telegram allows 20 messages per minute there.
        stream_edit_interval: f64 = 0.6,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
        /// Duration of a long poll in seconds, at most 50.
        poll_timeout: u32 = 25, expects "write a number of seconds",
            within 0..=50 => "has to be a whole number of seconds up to 50";
        /// Timeout of a request in seconds; files have a minute more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
        /// Pause before a failed poll is repeated, in seconds; it doubles with each failure, up to
        /// 30 s.
        reconnect_pause: f64 = 0.5,
            within 0.001..=30.0 => "has to be a number of seconds from 0.001 to 30";
        /// Maximum number of concurrent requests; polls have a separate connection.
        connection_pool_size: u32 = 32,
            within 1..=1000 => "has to be a whole number from 1 to 1000";
        /// Timeout of a request that waits for one of these connections, in seconds.
        pool_timeout: f64 = 5.0,
            within 0.0..=3600.0 => "has to be a number of seconds from 0 up";
        /// The `https` URL that Telegram posts to, on port 443, 80, 88 or 8443.
        webhook_url: String = String::new();
        /// The local address that the webhook listens on.
        webhook_listen_host: String = "127.0.0.1".to_owned();
        /// The port that the webhook listens on.
        webhook_listen_port: u16 = 8081;
        /// The path of the webhook.
        webhook_path: String = "/telegram".to_owned();
        /// The secret that Telegram sends with every post: 1 to 256 letters, digits, `_` and `-`,
        /// for example from `openssl rand -hex 32`.
        webhook_secret_token: Secret = Secret::default();
        /// Maximum number of concurrent posts, 1 to 100. An album with more pieces is received as
        /// several messages.
        webhook_max_connections: u8 = 4;
    }
    validate Self::validated;
}

impl TelegramConfig {
    fn validated(self) -> Result<Self, ChannelError> {
        if self.token.expose().is_empty() {
            return Err(wrong(
                "token",
                "is empty: put the token here that @BotFather gave for the bot",
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

    /// Returns the id of the bot, the part of its token before the secret one.
    pub(crate) fn bot_id(&self) -> &str {
        self.token
            .expose()
            .split_once(':')
            .map(|(id, _)| id)
            .unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use nanobot_channel::ChannelFactory as _;

    #[test]
    fn section_accepts_defaults_and_unknown_keys() {
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
    fn default_section_parses_to_default_config() {
        let mut section = crate::TelegramFactory::new().default_config();
        section["token"] = json!("1:x");
        let expected = TelegramConfig {
            token: Secret::new("1:x"),
            ..TelegramConfig::default()
        };
        assert_eq!(TelegramConfig::from_section(&section).unwrap(), expected);
        assert_eq!(
            section["reconnectPause"],
            json!(0.5),
            "a key that is absent counts as unused"
        );
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
            (json!([]), "has to be an object"),
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
    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&TelegramConfig::keys());
        let page = include_str!("../../../../docs/channels/telegram.md");
        assert!(
            page.contains(&table),
            "docs/channels/telegram.md lacks this table:\n\n{table}"
        );
    }
}
