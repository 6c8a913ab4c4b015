//! The section of the configuration.
//!
//! Who may talk, in which groups and when (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) is not
//! here: whoever runs the channel reads that, and answers through [`nanobot_channel::Access`].
//! `webhookPath` and `userTokenReadOnly` of older configurations mean nothing in Socket Mode; they are
//! known as keys that are kept and not read.

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{read_section, wrong};
use serde::Deserialize;

use crate::Secret;

/// Where Slack's Web API is.
pub(crate) const API_BASE: &str = "https://slack.com/api";
/// More messages of a thread are never fetched.
const LONGEST_CONTEXT: u32 = 200;

/// The settings of one app.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlackConfig {
    /// Whether the channel runs at all.
    pub enabled: bool,
    /// How events come. Socket Mode is the only way.
    pub mode: String,
    /// The token of the bot (`xoxb-…`).
    pub bot_token: Secret,
    /// The token of the app (`xapp-…`), with the scope `connections:write`.
    pub app_token: Secret,
    /// An HTTP or SOCKS5 proxy for this channel alone, before the one that all clients use.
    pub proxy: Option<Secret>,
    /// The Web API, up to the slash before the method.
    pub api_base: String,
    /// Whether an answer in a channel begins a thread under the message.
    pub reply_in_thread: bool,
    /// The reaction that a message carries while it is worked on, without colons; empty for none.
    pub react_emoji: String,
    /// The reaction that takes its place at the end of the turn; empty for none.
    pub done_emoji: String,
    /// Whether the first message in a thread that is under way brings along what was said before.
    pub include_thread_context: bool,
    /// How many messages of a thread are brought along, at most 200.
    pub thread_context_limit: u32,
    /// Whether text is shown while it is being written.
    pub streaming: bool,
    /// The shortest time between two edits of such a text, in seconds.
    pub stream_edit_interval: f64,
    /// How long an answer may take, in seconds; files have their own time on top of it.
    pub request_timeout: f64,
}

impl Default for SlackConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            mode: "socket".to_owned(),
            bot_token: Secret::default(),
            app_token: Secret::default(),
            proxy: None,
            api_base: API_BASE.to_owned(),
            reply_in_thread: true,
            react_emoji: "eyes".to_owned(),
            done_emoji: "white_check_mark".to_owned(),
            include_thread_context: true,
            thread_context_limit: 20,
            streaming: true,
            stream_edit_interval: 1.2,
            request_timeout: 30.0,
        }
    }
}

impl SlackConfig {
    /// Reads a section. `null` says nothing, unknown keys are left alone.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn from_section(section: &Value) -> Result<Self, ChannelError> {
        read_section::<Self>(section, expected)?.validated()
    }

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
        if !(1.0..=3600.0).contains(&self.stream_edit_interval) {
            return Err(wrong(
                "streamEditInterval",
                "has to be a number of seconds from 1 up: Slack takes no more edits",
            ));
        }
        if !(0.1..=3600.0).contains(&self.request_timeout) {
            return Err(wrong(
                "requestTimeout",
                "has to be a number of seconds from 0.1 up",
            ));
        }
        if self.thread_context_limit > LONGEST_CONTEXT {
            return Err(wrong(
                "threadContextLimit",
                "has to be a whole number up to 200",
            ));
        }
        for emoji in [&mut self.react_emoji, &mut self.done_emoji] {
            *emoji = emoji.trim().trim_matches(':').to_owned();
        }
        Ok(self)
    }

    pub(crate) fn edit_interval(&self) -> Duration {
        Duration::from_secs_f64(self.stream_edit_interval)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

/// What to write under a key.
fn expected(key: &str) -> &'static str {
    match key {
        "enabled" | "replyInThread" | "includeThreadContext" | "streaming" => "write true or false",
        "streamEditInterval" | "requestTimeout" => "write a number of seconds",
        "threadContextLimit" => "write a whole number",
        _ => "write a text in quotes",
    }
}

#[cfg(test)]
mod tests {
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
    fn a_section_is_read_in_both_spellings_with_defaults_and_unknown_keys() {
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
    fn what_cannot_work_is_named_without_its_value() {
        let with = |key: &str, value: Value| {
            let mut section = json!({"botToken": "xoxb-1", "appToken": "xapp-1"});
            section[key] = value;
            section
        };
        let table = [
            (json!([]), ": has to be an object"),
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
}
