//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{http, settings, wrong};
use serde::Deserialize;

use crate::Secret;

/// The address at which the Python program has its bridge.
pub(crate) const BRIDGE_URL: &str = "ws://localhost:3001";
/// Longest emoji, in bytes.
const EMOJI_LIMIT: usize = 64;

settings! {
    /// The settings of one linked device.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct WhatsAppConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// Starts the bridge that `nanobot channels login whatsapp` installed. If none is
        /// installed, or with `false`, the one at `bridgeUrl` is used.
        start_bridge: bool = true;
        /// The URL of a bridge that is started by other means.
        bridge_url: String = BRIDGE_URL.to_owned();
        /// The token of that bridge, its `BRIDGE_TOKEN`.
        bridge_token: Secret = Secret::default();
        /// Marks messages of people with access as read.
        mark_read: bool = true;
        /// The reaction to a message until it is answered; `""` for none. People are notified of
        /// it.
        react_emoji: String = String::new();
        /// Sends messages about the work in progress, which stay in the chat.
        send_progress: bool = false;
        /// Timeout of an answer of the bridge in seconds.
        request_timeout: f64 = 60.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl WhatsAppConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        for text in [&mut self.bridge_url, &mut self.react_emoji] {
            *text = text.trim().to_owned();
        }
        if self.bridge_url.is_empty() {
            BRIDGE_URL.clone_into(&mut self.bridge_url);
        }
        let is_socket = ["ws://", "wss://"]
            .iter()
            .any(|scheme| self.bridge_url.starts_with(scheme));
        if !is_socket || http::api_base(&self.http_url(), BRIDGE_URL).is_err() {
            let message = format!("is no address of a WebSocket; write one like {BRIDGE_URL}");
            return Err(wrong("bridgeUrl", &message));
        }
        if self.react_emoji.len() > EMOJI_LIMIT {
            return Err(wrong("reactEmoji", "is too long: write one emoji"));
        }
        Ok(self)
    }

    /// Returns the address of the bridge as one of HTTP.
    pub(crate) fn http_url(&self) -> String {
        self.bridge_url.replacen("ws", "http", 1)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{ChannelFactory as _, Value};
    use serde_json::json;

    use super::*;

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let camel = json!({
            "enabled": true, "bridgeUrl": " ws://a.test:1 ", "bridgeToken": "s3cret",
            "startBridge": false, "markRead": false, "reactEmoji": " 👀", "requestTimeout": 5,
            "allowFrom": [], "sendProgress": null,
        });
        let snake = json!({
            "enabled": true, "bridge_url": "ws://a.test:1", "bridge_token": "s3cret",
            "start_bridge": false, "mark_read": false, "react_emoji": "👀", "request_timeout": 5,
        });
        let expected = WhatsAppConfig {
            enabled: true,
            bridge_url: "ws://a.test:1".to_owned(),
            bridge_token: Secret::new("s3cret"),
            start_bridge: false,
            mark_read: false,
            react_emoji: "👀".to_owned(),
            request_timeout: 5.0,
            ..WhatsAppConfig::default()
        };
        for section in [camel, snake] {
            assert_eq!(WhatsAppConfig::from_section(&section).unwrap(), expected);
        }
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let section = crate::WhatsAppFactory::new().default_config();
        let config = WhatsAppConfig::from_section(&section).unwrap();
        assert_eq!(config, WhatsAppConfig::default());
        let blank = WhatsAppConfig::from_section(&json!({"bridgeUrl": " "})).unwrap();
        assert_eq!(blank, WhatsAppConfig::default());
        assert!(crate::WhatsAppFactory::new().credentials().is_empty());
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let url = "bridgeUrl: is no address of a WebSocket; write one like ws://localhost:3001";
        let table = [
            ("bridgeUrl", json!("http://a.test"), url),
            ("bridgeUrl", json!("ws://"), url),
            ("bridgeUrl", json!("wsx"), url),
            (
                "bridgeToken",
                json!(7),
                "bridgeToken: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                "reactEmoji",
                json!("x".repeat(65)),
                "reactEmoji: is too long: write one emoji",
            ),
            (
                "requestTimeout",
                json!(0),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
        ];
        for (key, value, expected) in table {
            let section = Value::Object([(key.to_owned(), value)].into_iter().collect());
            let error = WhatsAppConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn token_is_never_shown() {
        let config = WhatsAppConfig {
            bridge_token: Secret::new("s3cret"),
            ..WhatsAppConfig::default()
        };
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
