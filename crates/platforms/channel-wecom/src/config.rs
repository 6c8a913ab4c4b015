//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{settings, wrong};
use reqwest::Url;
use serde::Deserialize;

use crate::Secret;

/// The address of the gateway for AI bots.
pub(crate) const WS_URL: &str = "wss://openws.work.weixin.qq.com";
/// Longest welcome, in characters.
const WELCOME_LIMIT: usize = 2000;

settings! {
    /// The settings of one bot.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct WeComConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The Bot ID, `aib…`.
        bot_id: String = String::new(),
            credential account "the Bot ID (aib…) of the bot's page \"API mode\"";
        /// The Secret of the long connection.
        secret: Secret = Secret::default(),
            credential secret "the Secret of the same page (long connection)";
        /// The greeting for people with access who open the chat, once a day. Without it, nothing
        /// is sent.
        welcome_message: String = String::new();
        /// Sends messages about the work in progress, which WeCom cannot delete later.
        send_progress: bool = false;
        /// Shows the reply while it is generated.
        streaming: bool = true;
        /// Minimum interval between two updates of a growing reply in seconds, at least 0.5. Each
        /// one counts as a message, of which WeCom takes 30 a minute.
        stream_edit_interval: f64 = 3.0,
            within 0.5..=60.0 => "has to be a number of seconds from 0.5 to 60";
        /// An HTTP or SOCKS5 proxy, also for the socket; `""` disables all proxies. Without the
        /// key, `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in
        /// `NO_PROXY` are reached directly.
        proxy: Option<Secret> = None;
        /// The URL of the gateway. Without the key, `wss://openws.work.weixin.qq.com`.
        ws_url: Option<String> = None;
        /// Timeout of an answer in seconds; downloads of files have 90 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl WeComConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        for text in [&mut self.bot_id, &mut self.welcome_message] {
            *text = text.trim().to_owned();
        }
        if self.bot_id.is_empty() {
            return Err(wrong(
                "botId",
                "is empty: put the Bot ID of the bot's page \"API mode\" here",
            ));
        }
        if self.secret.expose().is_empty() {
            return Err(wrong(
                "secret",
                "is empty: put the Secret of the bot's page \"API mode\" here",
            ));
        }
        if self.welcome_message.chars().count() > WELCOME_LIMIT {
            return Err(wrong(
                "welcomeMessage",
                "is too long: write at most 2,000 characters",
            ));
        }
        let url = Url::parse(self.ws_url());
        let is_usable = |url: &Url| matches!(url.scheme(), "ws" | "wss") && url.has_host();
        if !url.is_ok_and(|url| is_usable(&url)) {
            let message = format!("is no address of a WebSocket; write one like {WS_URL}");
            return Err(wrong("wsUrl", &message));
        }
        Ok(self)
    }

    /// Returns the address of the gateway.
    pub(crate) fn ws_url(&self) -> &str {
        let own = self.ws_url.as_deref().map(str::trim);
        own.filter(|url| !url.is_empty()).unwrap_or(WS_URL)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{ChannelFactory as _, Value};
    use nanobot_channel_kit::settings;
    use serde_json::json;

    use super::*;

    fn credentials() -> WeComConfig {
        WeComConfig {
            bot_id: "aib1".to_owned(),
            secret: Secret::new("s3cret"),
            ..WeComConfig::default()
        }
    }

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let camel = json!({
            "enabled": true, "botId": " aib1", "secret": "s3cret", "welcomeMessage": " hi ",
            "streamEditInterval": 2, "wsUrl": "ws://a.test", "allowFrom": [], "proxy": null,
        });
        let snake = json!({
            "enabled": true, "bot_id": "aib1", "secret": "s3cret", "welcome_message": "hi",
            "stream_edit_interval": 2, "ws_url": "ws://a.test",
        });
        let expected = WeComConfig {
            enabled: true,
            welcome_message: "hi".to_owned(),
            stream_edit_interval: 2.0,
            ws_url: Some("ws://a.test".to_owned()),
            ..credentials()
        };
        for section in [camel, snake] {
            assert_eq!(WeComConfig::from_section(&section).unwrap(), expected);
        }
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let mut section = crate::WeComFactory::new().default_config();
        section["botId"] = json!("aib1");
        section["secret"] = json!("s3cret");
        assert_eq!(WeComConfig::from_section(&section).unwrap(), credentials());
    }

    #[test]
    fn address_is_the_usual_or_the_own_one() {
        let url = |section: Value| {
            let config = WeComConfig::read(&section).unwrap();
            config.ws_url().to_owned()
        };
        assert_eq!(url(json!({"wsUrl": " "})), WS_URL);
        assert_eq!(url(json!({"wsUrl": "ws://a.test/x"})), "ws://a.test/x");
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let with = |key: &str, value: Value| {
            let mut section = json!({"botId": "aib1", "secret": "s3cret"});
            section[key] = value;
            section
        };
        let table = [
            (
                json!({}),
                "botId: is empty: put the Bot ID of the bot's page \"API mode\" here",
            ),
            (
                with("secret", json!("")),
                "secret: is empty: put the Secret of the bot's page \"API mode\" here",
            ),
            (
                with("secret", json!(7)),
                "secret: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                with("welcomeMessage", json!("x".repeat(2001))),
                "welcomeMessage: is too long: write at most 2,000 characters",
            ),
            (
                with("streamEditInterval", json!(0.1)),
                "streamEditInterval: has to be a number of seconds from 0.5 to 60",
            ),
            (
                with("wsUrl", json!("https://a.test")),
                "wsUrl: is no address of a WebSocket; write one like \
                 wss://openws.work.weixin.qq.com",
            ),
            (
                with("requestTimeout", json!(0)),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
        ];
        for (section, expected) in table {
            let error = WeComConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn documentation_describes_every_key() {
        let page = include_str!("../../../../docs/channels/wecom.md");
        let table = settings::markdown(&WeComConfig::keys());
        assert!(
            page.contains(&table),
            "docs/channels/wecom.md needs:\n{table}"
        );
    }

    #[test]
    fn debug_output_hides_secrets() {
        let config = WeComConfig {
            proxy: Some(Secret::new("http://user:pass@proxy.test")),
            ..credentials()
        };
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("s3cret") && !shown.contains("pass"),
            "{shown}"
        );
    }
}
