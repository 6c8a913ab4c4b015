//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`].

use std::path::PathBuf;
use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;

use crate::Secret;
use crate::id::is_user_id;

/// The homeserver of a new configuration.
pub(crate) const HOMESERVER: &str = "https://matrix.org";

settings! {
    /// The settings of one account.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct MatrixConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The URL of the homeserver.
        homeserver: String = HOMESERVER.to_owned(),
            credential detail "the URL of the homeserver" optional "for https://matrix.org";
        /// The account, `@bot:server`.
        user_id: String = String::new(),
            credential account "the account of the assistant, such as @bot:matrix.org";
        /// The access token of a session. Without it, `password` is needed.
        access_token: Secret = Secret::default(),
            credential secret "the access token of a session of a client"
            optional "to log in with the password";
        /// The password of the account. Used without `accessToken`, to log in again if the
        /// homeserver ends the session, and to publish the cross-signing identity.
        password: Secret = Secret::default(),
            credential secret "the password of the account" unless "accessToken";
        /// The device of the session. Without the key, the homeserver is asked.
        device_id: String = String::new();
        /// Takes part in encrypted rooms.
        e2ee_enabled: bool = true;
        /// Accepts and confirms verifications by emoji that people with access ask for.
        sas_verification: bool = false;
        /// The path of the program `nanobot-matrix-crypto`. Without the key, it is looked for
        /// beside nanobot, then in `PATH`.
        crypto_program: Option<PathBuf> = None;
        /// Counts `@room` as a mention of the assistant.
        allow_room_mentions: bool = false;
        /// Shows the reply while it is generated, by edits of one message.
        streaming: bool = true;
        /// Minimum interval between two edits in seconds, at least 0.5.
        stream_edit_interval: f64 = 2.0,
            within 0.5..=60.0 => "has to be a number of seconds from 0.5 to 60";
        /// A reaction to messages that are worked on; `""` for none. Not in encrypted rooms.
        react_emoji: String = "👀".to_owned();
        /// Largest file that is received or sent, in bytes; 0 for no files.
        max_media_bytes: u64 = 20_971_520;
        /// Kept for older configurations; a stop takes less than two seconds.
        sync_stop_grace_seconds: f64 = 2.0;
        /// An HTTP or SOCKS5 proxy; `""` disables all proxies. Without the key,
        /// `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in `NO_PROXY`
        /// are reached directly.
        proxy: Option<Secret> = None;
        /// Timeout of a request in seconds; files have 90 more, and `/sync` 30 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl MatrixConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        for text in [
            &mut self.homeserver,
            &mut self.user_id,
            &mut self.device_id,
            &mut self.react_emoji,
        ] {
            *text = text.trim().to_owned();
        }
        if self.homeserver.is_empty() {
            HOMESERVER.clone_into(&mut self.homeserver);
        }
        if self.access_token.expose().is_empty() && self.password.expose_exact().is_empty() {
            return Err(wrong(
                "accessToken",
                "is empty: put an access token here, or the password into `password`",
            ));
        }
        let needs_user = self.access_token.expose().is_empty();
        if (needs_user || !self.user_id.is_empty()) && !is_user_id(&self.user_id) {
            return Err(wrong("userId", "is no account; write one like @bot:server"));
        }
        Ok(self)
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

    fn credentials() -> MatrixConfig {
        MatrixConfig {
            user_id: "@bot:x.test".to_owned(),
            access_token: Secret::new("s3cret"),
            ..MatrixConfig::default()
        }
    }

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let camel = json!({
            "enabled": true, "homeserver": " http://x.test ", "userId": "@bot:x.test",
            "accessToken": "s3cret", "deviceId": "D", "e2eeEnabled": false, "allowFrom": [],
            "syncStopGraceSeconds": 5, "maxMediaBytes": 7, "allowRoomMentions": true,
            "groupPolicy": "open", "groupAllowFrom": [], "proxy": null,
        });
        let snake = json!({
            "enabled": true, "homeserver": "http://x.test", "user_id": "@bot:x.test",
            "access_token": "s3cret", "device_id": "D", "e2ee_enabled": false,
            "sync_stop_grace_seconds": 5.0, "max_media_bytes": 7, "allow_room_mentions": true,
        });
        let expected = MatrixConfig {
            enabled: true,
            homeserver: "http://x.test".to_owned(),
            device_id: "D".to_owned(),
            e2ee_enabled: false,
            sync_stop_grace_seconds: 5.0,
            max_media_bytes: 7,
            allow_room_mentions: true,
            ..credentials()
        };
        for section in [camel, snake] {
            assert_eq!(MatrixConfig::from_section(&section).unwrap(), expected);
        }
    }

    #[test]
    fn login_does_not_require_what_has_a_default() {
        let asked = crate::MatrixFactory::new().credentials();
        let required = asked.iter().filter(|one| one.when_empty.is_none());
        let required: Vec<_> = required.map(|credential| credential.key).collect();
        assert_eq!(required, ["userId", "password"]);
        let section = json!({"homeserver": "", "userId": "@bot:x.test", "accessToken": "s3cret"});
        assert_eq!(MatrixConfig::from_section(&section).unwrap(), credentials());
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let mut section = crate::MatrixFactory::new().default_config();
        section["userId"] = json!("@bot:x.test");
        section["accessToken"] = json!("s3cret");
        assert_eq!(MatrixConfig::from_section(&section).unwrap(), credentials());
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let with = |key: &str, value: Value| {
            let mut section = json!({"userId": "@bot:x.test", "accessToken": "s3cret"});
            section[key] = value;
            section
        };
        let table = [
            (
                json!({"userId": "@bot:x.test"}),
                "accessToken: is empty: put an access token here, or the password into `password`",
            ),
            (
                json!({"password": "s3cret"}),
                "userId: is no account; write one like @bot:server",
            ),
            (
                with("userId", json!("bot")),
                "userId: is no account; write one like @bot:server",
            ),
            (
                with("accessToken", json!(7)),
                "accessToken: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                with("streamEditInterval", json!(0)),
                "streamEditInterval: has to be a number of seconds from 0.5 to 60",
            ),
        ];
        for (section, expected) in table {
            let error = MatrixConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let token_alone = json!({"accessToken": "s3cret"});
        assert!(MatrixConfig::from_section(&token_alone).is_ok());
    }

    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&MatrixConfig::keys());
        let page = include_str!("../../../../docs/channels/matrix.md");
        assert!(
            page.contains(&table),
            "docs/channels/matrix.md lacks this table:\n\n{table}"
        );
    }
}
