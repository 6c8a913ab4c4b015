//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`].

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;

use crate::Secret;

/// The address of the open API.
pub(crate) const API_BASE: &str = "https://api.dingtalk.com";
/// The address of the older API, which takes uploads.
pub(crate) const OAPI_BASE: &str = "https://oapi.dingtalk.com";

settings! {
    /// The settings of one app.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct DingTalkConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The Client ID, `ding…`; also the code of the robot.
        client_id: String = String::new(),
            credential account "the Client ID (ding…) of the app's page \"Credentials & Basic Info\"";
        /// The Client Secret.
        client_secret: Secret = Secret::default(),
            credential secret "the Client Secret of the same page";
        /// Gives each member of a group a conversation of its own.
        group_user_isolation: bool = false;
        /// Answers private chats of people with access with a fixed notice only.
        disable_private_chat: bool = false;
        /// Sends messages about the work in progress, which DingTalk cannot delete later.
        send_progress: bool = false;
        /// Kept for older configurations; DingTalk fetches pictures itself, so nothing is redirected
        /// here.
        allow_remote_media_redirects: bool = false;
        /// Kept for older configurations, like `allowRemoteMediaRedirects`.
        remote_media_redirect_allowed_hosts: Vec<String> = Vec::new();
        /// Shows the reply while it is generated, in an AI card. Needs `cardTemplateId`.
        streaming: bool = true;
        /// The id of the template of an AI card (`….schema`). Without it, replies arrive whole.
        card_template_id: String = String::new();
        /// The variable of the template that shows the text.
        card_content_variable: String = "content".to_owned();
        /// Minimum interval between two updates of a growing reply in seconds, at least 0.5.
        stream_edit_interval: f64 = 0.5,
            within 0.5..=3600.0 => "has to be a number of seconds from 0.5 up";
        /// An HTTP or SOCKS5 proxy, also for the socket; `""` disables all proxies. Without the
        /// key, `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in
        /// `NO_PROXY` are reached directly.
        proxy: Option<Secret> = None;
        /// The URL of the open API. Without the key, `https://api.dingtalk.com`.
        api_base: Option<String> = None;
        /// The URL of the API for uploads. Without the key, `https://oapi.dingtalk.com`.
        oapi_base: Option<String> = None;
        /// Timeout of a request in seconds; files have 90 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl DingTalkConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        for text in [
            &mut self.client_id,
            &mut self.card_template_id,
            &mut self.card_content_variable,
        ] {
            *text = text.trim().to_owned();
        }
        if self.client_id.is_empty() {
            return Err(wrong(
                "clientId",
                "is empty: put the Client ID of the app's page \"Credentials & Basic Info\" here",
            ));
        }
        if self.client_secret.expose().is_empty() {
            return Err(wrong(
                "clientSecret",
                "is empty: put the Client Secret of the app's page \"Credentials & Basic Info\" here",
            ));
        }
        if self.card_content_variable.is_empty() {
            return Err(wrong(
                "cardContentVariable",
                "is empty: put the name of the template's variable here",
            ));
        }
        Ok(self)
    }

    /// `true` if replies are shown in AI cards.
    pub(crate) fn shows_cards(&self) -> bool {
        self.streaming && !self.card_template_id.is_empty()
    }

    /// Returns the address of the open API.
    pub(crate) fn api_base(&self) -> &str {
        given(self.api_base.as_deref(), API_BASE)
    }

    /// Returns the address of the API for uploads.
    pub(crate) fn oapi_base(&self) -> &str {
        given(self.oapi_base.as_deref(), OAPI_BASE)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

fn given<'a>(own: Option<&'a str>, usual: &'a str) -> &'a str {
    own.filter(|base| !base.trim().is_empty()).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{ChannelFactory as _, Value};
    use nanobot_channel_kit::settings;
    use serde_json::json;

    use super::*;

    fn credentials() -> DingTalkConfig {
        DingTalkConfig {
            client_id: "ding1".to_owned(),
            client_secret: Secret::new("s3cret"),
            ..DingTalkConfig::default()
        }
    }

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let camel = json!({
            "enabled": true, "clientId": " ding1", "clientSecret": "s3cret", "groupUserIsolation": true,
            "disablePrivateChat": true, "allowRemoteMediaRedirects": true, "cardTemplateId": " x.schema ",
            "remoteMediaRedirectAllowedHosts": ["a.test"], "allowFrom": [], "proxy": null, "groupPolicy": "open",
        });
        let snake = json!({
            "enabled": true, "client_id": "ding1", "client_secret": "s3cret", "group_user_isolation": true,
            "disable_private_chat": true, "allow_remote_media_redirects": true, "card_template_id": "x.schema",
            "remote_media_redirect_allowed_hosts": ["a.test"],
        });
        let expected = DingTalkConfig {
            enabled: true,
            group_user_isolation: true,
            disable_private_chat: true,
            allow_remote_media_redirects: true,
            remote_media_redirect_allowed_hosts: vec!["a.test".to_owned()],
            card_template_id: "x.schema".to_owned(),
            ..credentials()
        };
        for section in [camel, snake] {
            assert_eq!(DingTalkConfig::from_section(&section).unwrap(), expected);
        }
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let mut section = crate::DingTalkFactory::new().default_config();
        section["clientId"] = json!("ding1");
        section["clientSecret"] = json!("s3cret");
        assert_eq!(
            DingTalkConfig::from_section(&section).unwrap(),
            credentials()
        );
    }

    #[test]
    fn cards_need_a_template() {
        let shows = |section: Value| DingTalkConfig::read(&section).unwrap().shows_cards();
        assert!(!shows(json!({})));
        assert!(shows(json!({"cardTemplateId": "x.schema"})));
        assert!(!shows(
            json!({"cardTemplateId": "x.schema", "streaming": false})
        ));
    }

    #[test]
    fn addresses_are_the_usual_or_the_own_ones() {
        let bases = |section: Value| {
            let config = DingTalkConfig::read(&section).unwrap();
            (config.api_base().to_owned(), config.oapi_base().to_owned())
        };
        let usual = (API_BASE.to_owned(), OAPI_BASE.to_owned());
        assert_eq!(bases(json!({"apiBase": " "})), usual);
        assert_eq!(
            bases(json!({"apiBase": "http://a.test", "oapiBase": "http://b.test"})),
            ("http://a.test".to_owned(), "http://b.test".to_owned())
        );
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let with = |key: &str, value: Value| {
            let mut section = json!({"clientId": "ding1", "clientSecret": "s3cret"});
            section[key] = value;
            section
        };
        let table = [
            (
                json!({}),
                "clientId: is empty: put the Client ID of the app's page \"Credentials & Basic Info\" here",
            ),
            (
                with("clientSecret", json!("")),
                "clientSecret: is empty: put the Client Secret of the app's page \"Credentials & Basic Info\" here",
            ),
            (
                with("clientSecret", json!(7)),
                "clientSecret: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                with("groupUserIsolation", json!("x")),
                "groupUserIsolation: holds a text that cannot be used here; write true or false",
            ),
            (
                with("cardContentVariable", json!(" ")),
                "cardContentVariable: is empty: put the name of the template's variable here",
            ),
            (
                with("streamEditInterval", json!(0.1)),
                "streamEditInterval: has to be a number of seconds from 0.5 up",
            ),
            (
                with("requestTimeout", json!(0)),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
        ];
        for (section, text) in table {
            let error = DingTalkConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&DingTalkConfig::keys());
        let page = include_str!("../../../../docs/channels/dingtalk.md");
        assert!(
            page.contains(&table),
            "docs/channels/dingtalk.md lacks this table:\n\n{table}"
        );
    }
}
