//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`]. `webhookPath` and
//! `userTokenReadOnly` of older configurations have no meaning in Socket Mode; these keys are kept
//! and not read.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;

use crate::Secret;

/// The address of Slack's Web API.
pub(crate) const API_BASE: &str = "https://slack.com/api";

settings! {
    /// The settings of one app.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct SlackConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// How events arrive; `socket` (Socket Mode) is the only mode.
        mode: String = "socket".to_owned();
        /// The Bot User OAuth Token, `xoxb-…`.
        bot_token: Secret = Secret::default(),
            credential secret "the Bot User OAuth Token (xoxb-…) of the app's page \"OAuth & Permissions\"";
        /// The App-Level Token with the scope `connections:write`, `xapp-…`.
        app_token: Secret = Secret::default(),
            credential token "an App-Level Token (xapp-…) with connections:write, of the page \"Basic Information\"";
        /// An HTTP or SOCKS5 proxy, also for the socket; `""` disables all proxies. Without the
        /// key, `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in
        /// `NO_PROXY` are reached directly.
        proxy: Option<Secret> = None;
        /// The URL of the Web API, without the slash before the method.
        api_base: String = API_BASE.to_owned();
        /// Replies in a new thread in channels, never in direct messages.
        reply_in_thread: bool = true;
        /// The reaction to a message until it is answered, with or without colons; `""` for none.
        react_emoji: String = "eyes".to_owned();
        /// The reaction at the end of the turn; `""` for none.
        done_emoji: String = "white_check_mark".to_owned();
        /// Includes the earlier messages of a thread with its first message to the assistant.
        include_thread_context: bool = true;
        /// Maximum number of earlier messages, each truncated to 500 characters; at most 200.
        thread_context_limit: u32 = 20,
            within 0..=200 => "has to be a whole number up to 200";
        /// Shows the reply while it is generated.
        streaming: bool = true;
        /// Minimum interval between two edits in seconds, at least 1.
        stream_edit_interval: f64 = 1.2,
            within 1.0..=3600.0 => "has to be a number of seconds from 1 up: Slack takes no more edits";
        /// Timeout of a request in seconds; files have 90 more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl SlackConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        if !self.mode.trim().eq_ignore_ascii_case("socket") {
            return Err(wrong(
                "mode",
                "knows only \"socket\": events come over Socket Mode",
            ));
        }
        let tokens = [
            (
                "botToken",
                &self.bot_token,
                "xoxb-",
                "the Bot User OAuth Token of the app's page \"OAuth & Permissions\"",
            ),
            (
                "appToken",
                &self.app_token,
                "xapp-",
                "an App-Level Token with the scope connections:write of the app's page \"Basic Information\"",
            ),
        ];
        for (key, token, prefix, what) in tokens {
            let problem = match token.expose() {
                "" => "is empty",
                token if !token.starts_with(prefix) => "is a token of another kind",
                _ => continue,
            };
            return Err(wrong(
                key,
                &format!("{problem}: put {what} here; it begins with {prefix}"),
            ));
        }
        for emoji in [&mut self.react_emoji, &mut self.done_emoji] {
            *emoji = emoji.trim().trim_matches(':').to_owned();
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

    fn tokens() -> SlackConfig {
        SlackConfig {
            bot_token: Secret::new("xoxb-1"),
            app_token: Secret::new("xapp-1"),
            ..SlackConfig::default()
        }
    }

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let camel = json!({
            "enabled": true, "mode": "Socket", "botToken": "xoxb-1", "appToken": "xapp-1", "replyInThread": false,
            "reactEmoji": ":wave:", "doneEmoji": "", "includeThreadContext": false, "threadContextLimit": 5,
            "webhookPath": "/slack/events", "userTokenReadOnly": true, "dm": {"enabled": true}, "groupPolicy": "open",
            "proxy": null,
        });
        let snake = json!({
            "enabled": true, "mode": "Socket", "bot_token": "xoxb-1", "app_token": "xapp-1", "reply_in_thread": false,
            "react_emoji": "wave", "done_emoji": "", "include_thread_context": false, "thread_context_limit": 5,
        });
        let expected = SlackConfig {
            enabled: true,
            mode: "Socket".to_owned(),
            reply_in_thread: false,
            react_emoji: "wave".to_owned(),
            done_emoji: String::new(),
            include_thread_context: false,
            thread_context_limit: 5,
            ..tokens()
        };
        for section in [camel, snake] {
            assert_eq!(SlackConfig::from_section(&section).unwrap(), expected);
        }
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let mut section = crate::SlackFactory::new().default_config();
        section["botToken"] = json!("xoxb-1");
        section["appToken"] = json!("xapp-1");
        assert_eq!(SlackConfig::from_section(&section).unwrap(), tokens());
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let with = |key: &str, value: Value| {
            let mut section = json!({"botToken": "xoxb-1", "appToken": "xapp-1"});
            section[key] = value;
            section
        };
        let table = [
            (json!([]), "has to be an object"),
            (
                json!({}),
                "botToken: is empty: put the Bot User OAuth Token of the app's page \"OAuth & Permissions\" here; it \
                 begins with xoxb-",
            ),
            (
                with("appToken", json!("xoxb-s3cret")),
                "appToken: is a token of another kind: put an App-Level Token with the scope connections:write of the \
                 app's page \"Basic Information\" here; it begins with xapp-",
            ),
            (
                with("botToken", json!(7)),
                "botToken: holds a number that cannot be used here; write a text in quotes",
            ),
            (
                with("mode", json!("http")),
                "mode: knows only \"socket\": events come over Socket Mode",
            ),
            (
                with("reply_in_thread", json!("x")),
                "reply_in_thread: holds a text that cannot be used here; write true or false",
            ),
            (
                with("streamEditInterval", json!(0.2)),
                "streamEditInterval: has to be a number of seconds from 1 up: Slack takes no more edits",
            ),
            (
                with("requestTimeout", json!(0)),
                "requestTimeout: has to be a number of seconds from 0.1 up",
            ),
            (
                with("threadContextLimit", json!(201)),
                "threadContextLimit: has to be a whole number up to 200",
            ),
        ];
        for (section, text) in table {
            assert_eq!(
                SlackConfig::from_section(&section).unwrap_err().to_string(),
                text
            );
        }
    }
    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&SlackConfig::keys());
        let page = include_str!("../../../../docs/channels/slack.md");
        assert!(
            page.contains(&table),
            "docs/channels/slack.md lacks this table:\n\n{table}"
        );
    }
}
