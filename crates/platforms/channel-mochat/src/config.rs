//! The section of the configuration.
//!
//! Rules of access (`allowFrom`, `groupPolicy`, `groupAllowFrom`, `dm`) are not here: the
//! supervisor reads them, and answers through [`nanobot_channel::Access`]. The key `groups` has
//! readers on both sides: here `requireMention` of its entries is read, there the rest.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::{settings, wrong};
use serde::Deserialize;
use url::Url;

use crate::Secret;
use crate::mention_rule::{GroupMentions, MentionRule};
use crate::reply_delay::ReplyDelayMode;

/// The address of the platform.
pub(crate) const BASE_URL: &str = "https://mochat.io";
/// The entry of `sessions` and `panels` for all that the platform lists.
const ALL: &str = "*";

settings! {
    /// The settings of one agent.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct MochatConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// The token of the agent.
        claw_token: Secret = Secret::default(),
            credential token "the token of the agent (claw token), from its registration at Mochat";
        /// The id of the agent as a user. Its own messages are left out, and its mentions found.
        agent_user_id: String = String::new(),
            credential detail "the agent's user id, from the same registration";
        /// The sessions to receive, by id; `"*"` is every session that Mochat lists.
        sessions: Vec<String> = Vec::new(), expects "write a list of texts, such as [\"*\"]",
            credential detail "the sessions to receive, by id, separated by commas; * for all"
            optional "for none";
        /// The panels to receive, by id; `"*"` is every text panel of the agent's groups.
        panels: Vec<String> = Vec::new(), expects "write a list of texts, such as [\"*\"]",
            credential detail "the panels of groups to receive, in the same way"
            optional "for none";
        /// Requires a mention in all groups: `{"requireInGroups": true}`.
        mention: MentionRule = MentionRule::default();
        /// Rules of single groups, by the id of the group or the panel, or `"*"`:
        /// `requireMention`, and the keys of access.
        groups: GroupMentions = GroupMentions::default();
        /// Collects messages of panels without a mention until one mentions the agent or
        /// `replyDelayMs` pass in silence (`"non-mention"`); `"off"` delivers each at once.
        reply_delay_mode: ReplyDelayMode = ReplyDelayMode::NonMention;
        /// Silence after which collected messages are delivered, in milliseconds.
        reply_delay_ms: u64 = 120_000,
            within 0..=86_400_000 => "has to be a number of milliseconds, at most a day";
        /// The URL of the platform.
        base_url: String = BASE_URL.to_owned();
        /// The URL of the Socket.IO server. Without it, `baseUrl`.
        socket_url: String = String::new();
        /// The path of the Socket.IO server.
        socket_path: String = "/socket.io".to_owned();
        /// Uses the text form of Socket.IO in place of MessagePack.
        socket_disable_msgpack: bool = false;
        /// First pause before a new attempt to connect, in milliseconds.
        socket_reconnect_delay_ms: u64 = 1000,
            within 1..=3_600_000 => "has to be a number of milliseconds, at most an hour";
        /// Longest pause before a new attempt to connect, in milliseconds.
        socket_max_reconnect_delay_ms: u64 = 10_000,
            within 1..=3_600_000 => "has to be a number of milliseconds, at most an hour";
        /// Timeout of an attempt to connect, in milliseconds.
        socket_connect_timeout_ms: u64 = 10_000,
            within 1..=600_000 => "has to be a number of milliseconds, at most ten minutes";
        /// Attempts to connect in a row after which only polling is left; 0 is no limit.
        max_retry_attempts: u32 = 0;
        /// Interval of looking for new sessions and panels, and of polls of a panel while there
        /// is no connection, in milliseconds.
        refresh_interval_ms: u64 = 30_000,
            within 10..=3_600_000 => "has to be a number of milliseconds from 10 to an hour";
        /// Time that a poll of a session may wait for a message, in milliseconds.
        watch_timeout_ms: u64 = 25_000,
            within 0..=600_000 => "has to be a number of milliseconds, at most ten minutes";
        /// Largest number of events of a poll.
        watch_limit: usize = 100,
            within 1..=1000 => "has to be a number from 1 to 1000";
        /// First pause after a failed poll, in milliseconds.
        retry_delay_ms: u64 = 500,
            within 1..=3_600_000 => "has to be a number of milliseconds, at most an hour";
        /// Sends messages about the work in progress, which Mochat cannot delete later.
        send_progress: bool = false;
        /// An HTTP or SOCKS5 proxy, also for the socket; `""` disables all proxies. Without the
        /// key, `tools.web.proxy` applies, then the environment (`HTTPS_PROXY`). Hosts in
        /// `NO_PROXY` are reached directly.
        proxy: Option<Secret> = None;
        /// Timeout of a request in seconds; a poll has `watchTimeoutMs` more.
        request_timeout: f64 = 30.0,
            within 0.1..=3600.0 => "has to be a number of seconds from 0.1 up";
    }
    validate Self::validated;
}

impl MochatConfig {
    fn validated(mut self) -> Result<Self, ChannelError> {
        for text in [
            &mut self.agent_user_id,
            &mut self.base_url,
            &mut self.socket_url,
        ] {
            *text = text.trim().to_owned();
        }
        for ids in [&mut self.sessions, &mut self.panels] {
            ids.iter_mut().for_each(|id| *id = id.trim().to_owned());
            ids.retain(|id| !id.is_empty());
        }
        if self.base_url.is_empty() {
            BASE_URL.clone_into(&mut self.base_url);
        }
        if self.claw_token.expose().is_empty() {
            return Err(wrong(
                "clawToken",
                "is empty: put the token of the agent here",
            ));
        }
        if self.agent_user_id.is_empty() {
            return Err(wrong(
                "agentUserId",
                "is empty: put the user id of the agent here; without it, its own messages would \
                 be answered",
            ));
        }
        self.socket_address()?;
        Ok(self)
    }

    /// Checks that there is something to receive. Without it, the agent can only send.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub(crate) fn check_targets(&self) -> Result<(), ChannelError> {
        if self.sessions.is_empty() && self.panels.is_empty() {
            let why = "is empty, and so is panels: nothing is received; write [\"*\"] into both to \
                       receive everything";
            return Err(wrong("sessions", why));
        }
        Ok(())
    }

    /// Returns the address of the socket. The path is that of the host: a path of the URL is left
    /// out, as other clients of Socket.IO do.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub(crate) fn socket_address(&self) -> Result<String, ChannelError> {
        let (key, address) = if self.socket_url.is_empty() {
            ("baseUrl", &self.base_url)
        } else {
            ("socketUrl", &self.socket_url)
        };
        let unusable = || wrong(key, &format!("is no address; write one like {BASE_URL}"));
        let url = Url::parse(address).map_err(|_unreadable| unusable())?;
        let scheme = match url.scheme() {
            "http" | "ws" => "ws",
            "https" | "wss" => "wss",
            _ => return Err(unusable()),
        };
        let host = url.host_str().ok_or_else(unusable)?;
        let port = url
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let path = self.socket_path.trim().trim_matches('/');
        let path = if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        Ok(format!(
            "{scheme}://{host}{port}/{path}?EIO=4&transport=websocket"
        ))
    }

    /// `true` if all sessions are received that the platform lists.
    pub(crate) fn discovers_sessions(&self) -> bool {
        self.sessions.iter().any(|id| id == ALL)
    }

    /// `true` if all panels are received that the platform lists.
    pub(crate) fn discovers_panels(&self) -> bool {
        self.panels.iter().any(|id| id == ALL)
    }

    /// Returns the sessions that are named.
    pub(crate) fn named_sessions(&self) -> impl Iterator<Item = &String> {
        self.sessions.iter().filter(|id| *id != ALL)
    }

    /// Returns the panels that are named.
    pub(crate) fn named_panels(&self) -> impl Iterator<Item = &String> {
        self.panels.iter().filter(|id| *id != ALL)
    }

    /// `true` if messages of panels without a mention are collected.
    pub(crate) fn delays_replies(&self) -> bool {
        self.reply_delay_mode == ReplyDelayMode::NonMention
    }

    pub(crate) fn reply_delay(&self) -> Duration {
        Duration::from_millis(self.reply_delay_ms)
    }

    pub(crate) fn refresh_interval(&self) -> Duration {
        Duration::from_millis(self.refresh_interval_ms)
    }

    pub(crate) fn watch_timeout(&self) -> Duration {
        Duration::from_millis(self.watch_timeout_ms)
    }

    pub(crate) fn retry_delay(&self) -> Duration {
        Duration::from_millis(self.retry_delay_ms)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.socket_connect_timeout_ms)
    }

    /// Returns the pause before the next attempt to connect.
    pub(crate) fn reconnect_delay(&self, failures: u32) -> Duration {
        let first = Duration::from_millis(self.socket_reconnect_delay_ms);
        let longest = Duration::from_millis(self.socket_max_reconnect_delay_ms);
        first
            .saturating_mul(2_u32.saturating_pow(failures.min(20)))
            .min(longest)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.request_timeout)
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{ChannelFactory as _, Value};
    use nanobot_channel_kit::settings;
    use serde_json::json;

    use super::*;

    fn with(changes: &Value) -> Value {
        let mut section = json!({"clawToken": "s3cret", "agentUserId": "a1"});
        let changes = changes.as_object().unwrap().clone();
        section.as_object_mut().unwrap().extend(changes);
        section
    }

    #[test]
    fn section_of_the_python_program_is_read_as_it_is() {
        let camel = json!({
            "enabled": true, "clawToken": "s3cret", "agentUserId": " a1", "sessions": ["*", " s1 ", ""],
            "panels": ["p1"], "mention": {"requireInGroups": true}, "replyDelayMode": "off",
            "groups": {"g1": {"requireMention": true}}, "replyDelayMs": 5, "socketPath": "/x",
            "baseUrl": "https://x.test", "socketDisableMsgpack": true, "maxRetryAttempts": 3,
            "allowFrom": ["u1"], "groupPolicy": "open", "proxy": null,
        });
        let snake = json!({
            "enabled": true, "claw_token": "s3cret", "agent_user_id": "a1", "sessions": ["*", "s1"],
            "panels": ["p1"], "mention": {"require_in_groups": true}, "reply_delay_mode": "off",
            "groups": {"g1": {"require_mention": true}}, "reply_delay_ms": 5, "socket_path": "/x",
            "base_url": "https://x.test", "socket_disable_msgpack": true, "max_retry_attempts": 3,
        });
        let camel = MochatConfig::from_section(&camel).unwrap();
        assert_eq!(MochatConfig::from_section(&snake).unwrap(), camel);
        assert!(camel.enabled && camel.socket_disable_msgpack && camel.mention.require_in_groups);
        assert!(camel.discovers_sessions() && !camel.discovers_panels());
        assert_eq!(camel.named_sessions().collect::<Vec<_>>(), ["s1"]);
        assert_eq!(camel.named_panels().collect::<Vec<_>>(), ["p1"]);
        assert!(!camel.delays_replies());
        assert_eq!(camel.reply_delay(), Duration::from_millis(5));
        assert!(
            camel
                .groups
                .requires_mention("g1", "p1", &MentionRule::default())
        );
    }

    #[test]
    fn default_section_parses_to_default_config() {
        let mut section = crate::MochatFactory::new().default_config();
        assert_eq!(section["groupPolicy"], "open");
        section["clawToken"] = json!("s3cret");
        section["agentUserId"] = json!("a1");
        let expected = MochatConfig {
            claw_token: Secret::new("s3cret"),
            agent_user_id: "a1".to_owned(),
            ..MochatConfig::default()
        };
        assert_eq!(MochatConfig::from_section(&section).unwrap(), expected);
    }

    #[test]
    fn socket_is_at_its_own_or_the_base_address() {
        let address = |changes: Value| {
            let config = MochatConfig::from_section(&with(&changes)).unwrap();
            config.socket_address().unwrap()
        };
        let table = [
            (
                json!({}),
                "wss://mochat.io/socket.io/?EIO=4&transport=websocket",
            ),
            (
                json!({"baseUrl": "http://x.test:8080/prefix/", "socketPath": "io"}),
                "ws://x.test:8080/io/?EIO=4&transport=websocket",
            ),
            (
                json!({"socketUrl": " wss://y.test ", "socketPath": "/"}),
                "wss://y.test/?EIO=4&transport=websocket",
            ),
            (
                json!({"baseUrl": " ", "socketUrl": "https://[::1]:9"}),
                "wss://[::1]:9/socket.io/?EIO=4&transport=websocket",
            ),
        ];
        for (changes, expected) in table {
            assert_eq!(address(changes.clone()), expected, "{changes}");
        }
    }

    #[test]
    fn reconnect_delay_doubles_up_to_its_limit() {
        let config = MochatConfig::default();
        let delays = [0, 1, 3, 4, u32::MAX].map(|failures| config.reconnect_delay(failures));
        assert_eq!(delays.map(|delay| delay.as_secs()), [1, 2, 8, 10, 10]);
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let table = [
            (
                json!({}),
                "clawToken: is empty: put the token of the agent here",
            ),
            (
                with(&json!({"agentUserId": " "})),
                "agentUserId: is empty: put the user id of the agent here; without it, its own \
                 messages would be answered",
            ),
            (
                with(&json!({"socketUrl": "ftp://s3cret"})),
                "socketUrl: is no address; write one like https://mochat.io",
            ),
            (
                with(&json!({"baseUrl": "s3cret"})),
                "baseUrl: is no address; write one like https://mochat.io",
            ),
            (
                with(&json!({"replyDelayMode": "s3cret"})),
                "replyDelayMode: holds a text that cannot be used here; write \"non-mention\" or \
                 \"off\"",
            ),
            (
                with(&json!({"watchLimit": 0})),
                "watchLimit: has to be a number from 1 to 1000",
            ),
            (
                with(&json!({"sessions": "*"})),
                "sessions: holds a text that cannot be used here; write a list of texts, such as [\"*\"]",
            ),
            (
                with(&json!({"groups": ["s3cret"]})),
                "groups: holds a list that cannot be used here; write an object like \
                 {\"*\": {\"requireMention\": true}}",
            ),
        ];
        for (section, expected) in table {
            let error = MochatConfig::from_section(&section).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn documentation_lists_every_key() {
        let page = include_str!("../../../../docs/channels/mochat.md");
        let table = settings::markdown(&MochatConfig::keys());
        assert!(page.contains(&table), "the table has to be\n{table}");
    }
}
