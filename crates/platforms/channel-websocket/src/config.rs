//! The section `channels.websocket`, and its checks.

use std::net::IpAddr;
use std::time::Duration;

use nanobot_channel::{ChannelError, RawConfig, Value};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::Token;

/// The keys of the section, without those that every channel has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebSocketConfig {
    /// The address to listen on.
    pub host: String,
    /// The port; 0 lets the system choose one.
    pub port: u16,
    /// The path of upgrade requests.
    pub path: String,
    /// The token that clients have to show.
    #[schemars(with = "String")]
    pub token: Token,
    /// Requires a token of clients. `false` is accepted on loopback only.
    pub websocket_requires_token: bool,
    /// Shows text while it is written.
    pub streaming: bool,
    /// The largest message a client may send, in bytes.
    #[schemars(range(min = 1))]
    pub max_message_bytes: usize,
    /// Seconds of silence after which a client gets a ping.
    #[schemars(range(min = 1))]
    pub ping_interval_s: u64,
    /// Seconds that a client has to answer a ping.
    #[schemars(range(min = 1))]
    pub ping_timeout_s: u64,
    /// Web origins that may connect, besides pages from this machine (`https://chat.example.org`).
    pub allowed_origins: Vec<String>,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8765,
            path: "/".to_owned(),
            token: Token::default(),
            websocket_requires_token: true,
            streaming: true,
            max_message_bytes: 1 << 20,
            ping_interval_s: 20,
            ping_timeout_s: 20,
            allowed_origins: Vec::new(),
        }
    }
}

/// Keys of the Python program's section that protect the connection, and must not be ignored.
const UNSUPPORTED: [(&str, &str); 3] = [
    (
        "sslCertfile",
        "TLS is not built in: put a proxy with TLS in front and leave this key out",
    ),
    (
        "sslKeyfile",
        "TLS is not built in: put a proxy with TLS in front and leave this key out",
    ),
    (
        "unixSocketPath",
        "Unix sockets are not supported: leave this key out and use host and port",
    ),
];

impl WebSocketConfig {
    /// Reads and checks a section.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key and what to write instead.
    pub fn read(config: &RawConfig) -> Result<Self, ChannelError> {
        for (key, message) in UNSUPPORTED {
            let set = config
                .section
                .get(key)
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty());
            if set {
                return Err(refuse(key, message));
            }
        }
        let read: Self = Self::deserialize(&config.section)
            .map_err(|error| refuse("(section)", &error.to_string()))?;
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), ChannelError> {
        if self.token.is_empty() && self.websocket_requires_token {
            return Err(refuse(
                "token",
                "is empty, so no client could connect: set a long random token, or set websocketRequiresToken to false, \
                 which is accepted on loopback only",
            ));
        }
        if self.token.is_empty() && !self.is_loopback() {
            return Err(refuse(
                "token",
                "is empty and host is not a loopback address, so every machine on the network could give orders: set a \
                 token, or set host to 127.0.0.1",
            ));
        }
        if self.token.is_empty() && self.allowed_origins.iter().any(|origin| origin == "*") {
            return Err(refuse(
                "allowedOrigins",
                "may not hold \"*\" without a token: name the origins",
            ));
        }
        if !self.path.starts_with('/') {
            return Err(refuse("path", "has to begin with /"));
        }
        if self.ping_interval_s == 0 || self.ping_timeout_s == 0 {
            return Err(refuse(
                "pingIntervalS",
                "and pingTimeoutS have to be at least 1",
            ));
        }
        if self.max_message_bytes == 0 {
            return Err(refuse("maxMessageBytes", "has to be at least 1"));
        }
        Ok(())
    }

    /// `true` if only this machine can reach the server.
    fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self
                .host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }

    pub(crate) fn ping_interval(&self) -> Duration {
        Duration::from_secs(self.ping_interval_s)
    }

    /// Returns the silence after which a client is disconnected.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_secs(self.ping_interval_s.saturating_add(self.ping_timeout_s))
    }

    /// Returns the section of a new configuration. Every client with the token has access.
    pub(crate) fn default_section() -> Value {
        let defaults = Self::default();
        json!({
            "enabled": false,
            "host": defaults.host,
            "port": defaults.port,
            "path": defaults.path,
            "token": "",
            "websocketRequiresToken": defaults.websocket_requires_token,
            "allowFrom": ["*"],
            "streaming": defaults.streaming,
            "maxMessageBytes": defaults.max_message_bytes,
            "pingIntervalS": defaults.ping_interval_s,
            "pingTimeoutS": defaults.ping_timeout_s,
            "allowedOrigins": defaults.allowed_origins,
        })
    }
}

fn refuse(key: &str, message: &str) -> ChannelError {
    ChannelError::Config {
        key: key.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key that a section is refused for.
    fn refused(section: Value) -> Option<String> {
        match WebSocketConfig::read(&RawConfig::new(section)) {
            Ok(_) => None,
            Err(ChannelError::Config { key, .. }) => Some(key),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn config_requires_a_token_beyond_loopback() {
        let table = [
            (json!({}), Some("token")),
            (json!({ "token": "t" }), None),
            (json!({ "token": "t", "host": "0.0.0.0" }), None),
            (json!({ "websocketRequiresToken": false }), None),
            (
                json!({ "websocketRequiresToken": false, "host": "::1" }),
                None,
            ),
            (
                json!({ "websocketRequiresToken": false, "host": "localhost" }),
                None,
            ),
            (
                json!({ "websocketRequiresToken": false, "host": "0.0.0.0" }),
                Some("token"),
            ),
            (
                json!({ "websocketRequiresToken": false, "host": "example.org" }),
                Some("token"),
            ),
            (
                json!({ "websocketRequiresToken": false, "allowedOrigins": ["*"] }),
                Some("allowedOrigins"),
            ),
            (
                json!({ "token": "t", "sslCertfile": "cert.pem" }),
                Some("sslCertfile"),
            ),
            (json!({ "token": "t", "sslCertfile": "" }), None),
            (json!({ "token": "t", "path": "ws" }), Some("path")),
            (json!({ "token": "t", "port": 70000 }), Some("(section)")),
            (
                json!({ "token": "t", "pingTimeoutS": 0 }),
                Some("pingIntervalS"),
            ),
        ];
        for (section, key) in table {
            assert_eq!(refused(section.clone()).as_deref(), key, "{section}");
        }
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let section = WebSocketConfig::default_section();
        assert_eq!(
            WebSocketConfig::deserialize(&section).unwrap(),
            WebSocketConfig::default()
        );
        assert_eq!(section.get("enabled"), Some(&json!(false)));
    }

    #[test]
    fn debug_output_hides_the_token() {
        let config = WebSocketConfig {
            token: Token::new("hunter2"),
            ..WebSocketConfig::default()
        };
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
