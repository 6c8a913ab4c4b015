//! Configuration section of the relay channel.

use std::fmt;

use nanobot_channel::{ChannelError, Value};
use serde::Deserialize;
use serde_json::json;

/// Address and token of the relay.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RelayConfig {
    /// `host:port`.
    #[serde(default)]
    pub(crate) server: String,
    /// Secret; never shown.
    #[serde(default)]
    pub(crate) token: String,
}

impl RelayConfig {
    /// Returns the section of a new configuration.
    pub(crate) fn template() -> Value {
        json!({"enabled": false, "server": "", "token": ""})
    }

    pub(crate) fn parse(section: &Value) -> Result<Self, ChannelError> {
        let config = Self::deserialize(section).map_err(|error| ChannelError::Config {
            key: "server, token".to_owned(),
            message: error.to_string(),
        })?;
        for (key, value, example) in [
            ("server", &config.server, "relay.example.org:7000"),
            ("token", &config.token, "the relay's token"),
        ] {
            if value.trim().is_empty() {
                return Err(ChannelError::Config {
                    key: key.to_owned(),
                    message: format!("is empty; set {example}"),
                });
            }
        }
        Ok(config)
    }
}

impl fmt::Debug for RelayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayConfig")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_settings_are_named() {
        for (section, key) in [
            (RelayConfig::template(), "server: is empty"),
            (json!({"server": "localhost:1"}), "token: is empty"),
            (
                json!({"server": 5, "token": "t"}),
                "server, token: invalid type",
            ),
        ] {
            let error = RelayConfig::parse(&section).unwrap_err();
            assert!(error.is_permanent());
            assert!(error.to_string().starts_with(key), "{error}");
        }
        assert!(RelayConfig::parse(&json!({"server": "localhost:1", "token": "t"})).is_ok());
    }
}
