//! Configuration section of a Beacon account.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{Secret, settings, wrong};
use serde::Deserialize;

/// The address of Beacon's API.
pub(crate) const API_BASE: &str = "https://beacon.example";

settings! {
    /// The settings of one account.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct BeaconConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The token of the account.
        token: Secret = Secret::default(), credential token "the token of a Beacon bot";
        /// The address of the API.
        api_base: String = API_BASE.to_owned();
        /// Timeout of a request, in seconds; files have 90 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "must be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl BeaconConfig {
    fn validated(self) -> Result<Self, ChannelError> {
        if self.token.expose().is_empty() {
            return Err(wrong("token", "is empty; create one in Beacon's settings"));
        }
        Ok(self)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_invalid_section_is_refused_by_its_key() {
        let table = [
            (
                json!({}),
                "token: is empty; create one in Beacon's settings",
            ),
            (
                json!({"token": "t", "requestTimeout": 0}),
                "requestTimeout: must be a number of seconds from 0.1 up",
            ),
        ];
        for (section, text) in table {
            let error = BeaconConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
        assert!(BeaconConfig::from_section(&json!({"token": "t"})).is_ok());
    }
}
