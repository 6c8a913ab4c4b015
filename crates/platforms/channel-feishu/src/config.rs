//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`]. `instanceId`, `name` and
//! `identityKey` of older configurations have no meaning: an instance is named by its section.
//! These keys are kept and not read.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;

use crate::Secret;

/// The address of Feishu's open API.
pub(crate) const FEISHU_BASE: &str = "https://open.feishu.cn";
/// The address of Lark's open API.
pub(crate) const LARK_BASE: &str = "https://open.larksuite.com";

settings! {
    /// The settings of one app.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct FeishuConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The App ID, `cli_…`.
        app_id: String = String::new(),
            credential account "the App ID (cli_…) of the app's page \"Credentials & Basic Info\"";
        /// The App Secret.
        app_secret: Secret = Secret::default(),
            credential secret "the App Secret of the same page";
        /// The platform of the app: `feishu` or `lark`.
        domain: String = "feishu".to_owned();
        /// Kept for older configurations; the long connection does not encrypt events.
        encrypt_key: Secret = Secret::default();
        /// Kept for older configurations; the long connection does not use it.
        verification_token: Secret = Secret::default();
        /// An HTTP or SOCKS5 proxy, also for the socket; `""` disables all proxies. Without the
        /// key, `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in
        /// `NO_PROXY` are reached directly.
        proxy: Option<Secret> = None;
        /// The URL of the open API, without `/open-apis`. Without the key, that of `domain`.
        api_base: Option<String> = None;
        /// Gives each topic of a group a conversation of its own, and replies in the topic.
        topic_isolation: bool = true;
        /// Quotes the message that is answered.
        reply_to_message: bool = false;
        /// The reaction to a message until it is answered; `""` for none.
        react_emoji: String = "THUMBSUP".to_owned();
        /// The reaction at the end of the turn; `""` for none.
        done_emoji: String = String::new();
        /// Precedes each line of a message about running tools.
        tool_hint_prefix: String = "🔧".to_owned();
        /// Shows the reply while it is generated.
        streaming: bool = true;
        /// Minimum interval between two updates of a growing reply in seconds, at least 0.5.
        stream_edit_interval: f64 = 0.5,
            within 0.5..=3600.0 => "has to be a number of seconds from 0.5 up";
        /// Timeout of a request in seconds; files have 90 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl FeishuConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        self.domain = self.domain.trim().to_ascii_lowercase();
        if !["feishu", "lark"].contains(&self.domain.as_str()) {
            return Err(wrong("domain", "has to be \"feishu\" or \"lark\""));
        }
        self.app_id = self.app_id.trim().to_owned();
        if self.app_id.is_empty() {
            return Err(wrong(
                "appId",
                "is empty: put the App ID of the app's page \"Credentials & Basic Info\" here; it begins with cli_",
            ));
        }
        if self.app_secret.expose().is_empty() {
            return Err(wrong(
                "appSecret",
                "is empty: put the App Secret of the app's page \"Credentials & Basic Info\" here",
            ));
        }
        for text in [
            &mut self.react_emoji,
            &mut self.done_emoji,
            &mut self.tool_hint_prefix,
        ] {
            *text = text.trim().to_owned();
        }
        Ok(self)
    }

    /// Returns the address of the open API.
    pub(crate) fn base(&self) -> &str {
        let own = self
            .api_base
            .as_deref()
            .filter(|base| !base.trim().is_empty());
        own.unwrap_or(if self.domain == "lark" {
            LARK_BASE
        } else {
            FEISHU_BASE
        })
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

    fn credentials() -> FeishuConfig {
        FeishuConfig {
            app_id: "cli_1".to_owned(),
            app_secret: Secret::new("s3cret"),
            ..FeishuConfig::default()
        }
    }

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let camel = json!({
            "enabled": true, "appId": " cli_1", "appSecret": "s3cret", "encryptKey": "", "verificationToken": "",
            "domain": "Lark", "reactEmoji": " OK ", "doneEmoji": null, "replyToMessage": true, "topicIsolation": false,
            "toolHintPrefix": ">", "instanceId": "default", "name": "x", "identityKey": "y", "groupPolicy": "open",
            "allowFrom": [], "proxy": null,
        });
        let snake = json!({
            "enabled": true, "app_id": "cli_1", "app_secret": "s3cret", "domain": "lark", "react_emoji": "OK",
            "reply_to_message": true, "topic_isolation": false, "tool_hint_prefix": "> ",
        });
        let expected = FeishuConfig {
            enabled: true,
            domain: "lark".to_owned(),
            react_emoji: "OK".to_owned(),
            reply_to_message: true,
            topic_isolation: false,
            tool_hint_prefix: ">".to_owned(),
            ..credentials()
        };
        for section in [camel, snake] {
            assert_eq!(FeishuConfig::from_section(&section).unwrap(), expected);
        }
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let mut section = crate::FeishuFactory::new().default_config();
        section["appId"] = json!("cli_1");
        section["appSecret"] = json!("s3cret");
        assert_eq!(FeishuConfig::from_section(&section).unwrap(), credentials());
    }

    #[test]
    fn base_is_that_of_the_domain_or_the_own_one() {
        let base = |section: Value| FeishuConfig::read(&section).unwrap().base().to_owned();
        assert_eq!(base(json!({})), FEISHU_BASE);
        assert_eq!(base(json!({"domain": "lark", "apiBase": ""})), LARK_BASE);
        assert_eq!(base(json!({"apiBase": "http://x.test"})), "http://x.test");
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let with = |key: &str, value: Value| {
            let mut section = json!({"appId": "cli_1", "appSecret": "s3cret"});
            section[key] = value;
            section
        };
        let table = [
            (json!([]), "has to be an object"),
            (
                json!({}),
                "appId: is empty: put the App ID of the app's page \"Credentials & Basic Info\" here; it begins with \
                 cli_",
            ),
            (
                with("appSecret", json!("")),
                "appSecret: is empty: put the App Secret of the app's page \"Credentials & Basic Info\" here",
            ),
            (
                with("appSecret", json!(7)),
                "appSecret: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                with("domain", json!("dingtalk")),
                "domain: has to be \"feishu\" or \"lark\"",
            ),
            (
                with("topic_isolation", json!("x")),
                "topic_isolation: holds a text that cannot be used here; write true or false",
            ),
            (
                with("streamEditInterval", json!(0.2)),
                "streamEditInterval: has to be a number of seconds from 0.5 up",
            ),
            (
                with("requestTimeout", json!(0)),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
        ];
        for (section, text) in table {
            let error = FeishuConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&FeishuConfig::keys());
        let page = include_str!("../../../../docs/channels/feishu.md");
        assert!(
            page.contains(&table),
            "docs/channels/feishu.md lacks this table:\n\n{table}"
        );
    }
}
