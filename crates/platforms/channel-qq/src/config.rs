//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::settings::Setting;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;
use serde_json::json;

use crate::Secret;

/// The address of the open API.
pub(crate) const API_BASE: &str = "https://api.sgroup.qq.com";
/// The address of the open API for bots that are tested.
const SANDBOX_BASE: &str = "https://sandbox.api.sgroup.qq.com";
/// The address that gives access tokens.
pub(crate) const TOKEN_URL: &str = "https://bots.qq.com/app/getAppAccessToken";

/// The form of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageFormat {
    /// Text without markup.
    #[default]
    Plain,
    /// QQ's Markdown.
    Markdown,
}

impl Setting for MessageFormat {
    const EXPECTED: &'static str = "write \"plain\" or \"markdown\"";

    fn shown(&self) -> Value {
        match self {
            Self::Plain => "plain".into(),
            Self::Markdown => "markdown".into(),
        }
    }

    fn schema() -> Value {
        json!({"enum": ["plain", "markdown"]})
    }
}

settings! {
    /// The settings of one bot.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct QqConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The AppID of the bot.
        app_id: String = String::new(),
            credential account "the AppID of the bot's page \"Development Settings\" at q.qq.com";
        /// The AppSecret of the bot.
        secret: Secret = Secret::default(),
            credential secret "the AppSecret of the same page";
        /// The form of replies: `plain` or `markdown`.
        msg_format: MessageFormat = MessageFormat::Plain;
        /// A text that is sent when a message has arrived; `""` for none. It uses one of the few
        /// replies that QQ takes to a message.
        ack_message: String = String::new();
        /// Sends messages about the work in progress. Each uses one of the few replies to a
        /// message.
        send_progress: bool = false;
        /// Uses QQ's sandbox, which serves only the test users and groups of a bot.
        sandbox: bool = false;
        /// Kept for older configurations; files are stored in the media folder of all channels.
        media_dir: String = String::new();
        /// Kept for older configurations; files are downloaded as they come.
        download_chunk_size: u64 = 262_144;
        /// Kept for older configurations; the size limit of all channels applies.
        download_max_bytes: u64 = 209_715_200;
        /// An HTTP or SOCKS5 proxy, also for the socket; `""` disables all proxies. Without the
        /// key, `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in
        /// `NO_PROXY` are reached directly.
        proxy: Option<Secret> = None;
        /// The URL of the open API. Without the key, `https://api.sgroup.qq.com`, or that of the
        /// sandbox.
        api_base: Option<String> = None;
        /// The URL that gives access tokens. Without the key,
        /// `https://bots.qq.com/app/getAppAccessToken`.
        token_url: Option<String> = None;
        /// Timeout of a request in seconds; files have 90 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl QqConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        for text in [&mut self.app_id, &mut self.ack_message] {
            *text = text.trim().to_owned();
        }
        if self.app_id.is_empty() {
            return Err(wrong(
                "appId",
                "is empty: put the AppID of the bot's page \"Development Settings\" here",
            ));
        }
        if self.secret.expose().is_empty() {
            return Err(wrong(
                "secret",
                "is empty: put the AppSecret of the bot's page \"Development Settings\" here",
            ));
        }
        Ok(self)
    }

    /// Returns the address of the open API.
    pub(crate) fn api_base(&self) -> &str {
        let usual = if self.sandbox { SANDBOX_BASE } else { API_BASE };
        given(self.api_base.as_deref(), usual)
    }

    /// Returns the address that gives access tokens.
    pub(crate) fn token_url(&self) -> &str {
        given(self.token_url.as_deref(), TOKEN_URL)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.msg_format == MessageFormat::Markdown
    }
}

fn given<'a>(own: Option<&'a str>, usual: &'a str) -> &'a str {
    own.filter(|base| !base.trim().is_empty()).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use nanobot_channel::ChannelFactory as _;

    use super::*;

    fn credentials() -> QqConfig {
        QqConfig {
            app_id: "102".to_owned(),
            secret: Secret::new("s3cret"),
            ..QqConfig::default()
        }
    }

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let camel = json!({
            "enabled": true, "appId": " 102", "secret": "s3cret", "msgFormat": "markdown", "sandbox": true,
            "ackMessage": "⏳ Processing...", "mediaDir": "/x", "downloadChunkSize": 1024, "downloadMaxBytes": 1,
            "allowFrom": [], "proxy": null, "groupPolicy": "open", "sendProgress": true,
        });
        let snake = json!({
            "enabled": true, "app_id": "102", "secret": "s3cret", "msg_format": "markdown", "sandbox": true,
            "ack_message": "⏳ Processing...", "media_dir": "/x", "download_chunk_size": 1024,
            "download_max_bytes": 1, "send_progress": true,
        });
        let expected = QqConfig {
            enabled: true,
            msg_format: MessageFormat::Markdown,
            ack_message: "⏳ Processing...".to_owned(),
            send_progress: true,
            sandbox: true,
            media_dir: "/x".to_owned(),
            download_chunk_size: 1024,
            download_max_bytes: 1,
            ..credentials()
        };
        for section in [camel, snake] {
            assert_eq!(QqConfig::from_section(&section).unwrap(), expected);
        }
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let mut section = crate::QqFactory::new().default_config();
        section["appId"] = json!("102");
        section["secret"] = json!("s3cret");
        assert_eq!(QqConfig::from_section(&section).unwrap(), credentials());
    }

    #[test]
    fn addresses_are_the_usual_or_the_own_ones() {
        let addresses = |section: Value| {
            let config = QqConfig::read(&section).unwrap();
            (config.api_base().to_owned(), config.token_url().to_owned())
        };
        let table = [
            (json!({"apiBase": " "}), (API_BASE, TOKEN_URL)),
            (json!({"sandbox": true}), (SANDBOX_BASE, TOKEN_URL)),
            (
                json!({"sandbox": true, "apiBase": "http://a.test", "tokenUrl": "http://b.test/t"}),
                ("http://a.test", "http://b.test/t"),
            ),
        ];
        for (section, (base, token)) in table {
            assert_eq!(addresses(section), (base.to_owned(), token.to_owned()));
        }
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let with = |key: &str, value: Value| {
            let mut section = json!({"appId": "102", "secret": "s3cret"});
            section[key] = value;
            section
        };
        let table = [
            (
                json!({}),
                "appId: is empty: put the AppID of the bot's page \"Development Settings\" here",
            ),
            (
                with("secret", json!("")),
                "secret: is empty: put the AppSecret of the bot's page \"Development Settings\" here",
            ),
            (
                with("secret", json!(7)),
                "secret: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                with("msgFormat", json!("html")),
                "msgFormat: holds a text that cannot be used here; write \"plain\" or \"markdown\"",
            ),
            (
                with("requestTimeout", json!(0)),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
        ];
        for (section, expected) in table {
            let error = QqConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&QqConfig::keys());
        let page = include_str!("../../../../docs/channels/qq.md");
        assert!(
            page.contains(&table),
            "docs/channels/qq.md lacks this table:\n\n{table}"
        );
    }
}
