//! State of the fake. Every method of the API changes it in one step.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{GatewaySession, Push, SocketConnection};
use crate::fault::Fault;
use crate::model::{Chat, Resource, SentMessage, StoredMessage, Upload};

/// The interval of heartbeats that QQ asks for.
const HEARTBEAT: Duration = Duration::from_millis(41_250);
/// Longest text of a message, in characters. QQ does not document its own limit.
const TEXT_LIMIT: usize = 5000;
/// Largest upload, in bytes.
const UPLOAD_LIMIT: usize = 20 << 20;
/// Sessions that may be begun in a day.
const SESSIONS: usize = 1000;

/// A call of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the call: `token`, `me`, `gateway`, `gateway.bot`; `user.send`, `group.send`,
    /// `channel.send` and `dms.send` send a message; `user.file` and `group.file` upload a file;
    /// `file.get` is the download of an attachment.
    pub method: String,
    /// Path of the request.
    pub path: String,
    /// The chat in the path; empty if there is none.
    pub target: String,
    /// Parameters of the query.
    pub query: Value,
    /// JSON of the body, or the texts of a form.
    pub body: Value,
    /// Time of arrival.
    pub at: Instant,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

/// An access token.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) value: String,
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

/// What the platform allows the bot; see the methods of [`QqFake`](crate::QqFake) of these names.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) heartbeat: Duration,
    pub(crate) text_limit: usize,
    pub(crate) upload_limit: usize,
    /// Messages in a month that are no replies, for each private chat and group.
    pub(crate) active_quota: usize,
    /// Replies to one message in a private chat, and in a group.
    pub(crate) replies: (usize, usize),
    pub(crate) refuses_urls: bool,
    pub(crate) refuses_markdown: bool,
    pub(crate) refuses_group_files: bool,
    pub(crate) delivers_group_messages: bool,
    /// Intents that close the connection with 4014.
    pub(crate) disallowed_intents: u64,
    /// Code with which every connection is closed that identifies or resumes.
    pub(crate) refuse_sessions: Option<u16>,
    /// `true` if heartbeats get no acknowledgement.
    pub(crate) withholds_acks: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            heartbeat: HEARTBEAT,
            text_limit: TEXT_LIMIT,
            upload_limit: UPLOAD_LIMIT,
            active_quota: 4,
            replies: (4, 5),
            refuses_urls: false,
            refuses_markdown: false,
            refuses_group_files: false,
            delivers_group_messages: false,
            disallowed_intents: 1 << 9 | 1 << 28,
            refuse_sessions: None,
            withholds_acks: false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct QqState {
    /// Address of the gateway.
    pub(crate) socket: String,
    /// Address of the API, which serves attachments, too.
    pub(crate) base: String,
    /// Time by which the fake's clock is fast.
    pub(crate) advanced: Duration,
    pub(crate) rules: Rules,
    pub(crate) is_revoked: bool,
    pub(crate) is_down: bool,
    pub(crate) is_stalled: bool,
    pub(crate) tokens: Vec<Token>,
    pub(crate) chats: BTreeMap<String, Chat>,
    /// Messages of people by their ids.
    pub(crate) messages: BTreeMap<String, StoredMessage>,
    pub(crate) sent: Vec<SentMessage>,
    /// Uploads by `file_info`.
    pub(crate) uploads: BTreeMap<String, Upload>,
    /// Attachments of people by `fileid`.
    pub(crate) files: BTreeMap<String, Resource>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    pub(crate) pushes: Vec<Push>,
    pub(crate) sessions: Vec<GatewaySession>,
    pub(crate) connections: BTreeMap<usize, SocketConnection>,
    /// Number of connections made so far.
    pub(crate) connected: usize,
    /// Times of identifications, in milliseconds of the fake's clock.
    pub(crate) identified: Vec<i64>,
    /// Number of resumed sessions.
    pub(crate) resumed: usize,
    /// Number of heartbeats received.
    pub(crate) beats: usize,
    last: u64,
}

impl QqState {
    /// Returns a number that was never returned before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns an id that was never returned before.
    pub(crate) fn next_id(&mut self, prefix: &str) -> String {
        format!("{prefix}{:024x}", self.next())
    }

    /// Returns the time of the fake's clock, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let advanced = i64::try_from(self.advanced.as_millis()).unwrap_or(i64::MAX);
        Utc::now().timestamp_millis().saturating_add(advanced)
    }

    /// Returns the number of sessions that may still be begun today.
    pub(crate) fn remaining_sessions(&self) -> usize {
        let yesterday = self.now() - 86_400_000;
        let recent = self.identified.iter().filter(|time| **time > yesterday);
        SESSIONS.saturating_sub(recent.count())
    }

    pub(crate) fn complain(&mut self, what: &str) {
        self.complaints.push(format!("gateway: {what}"));
    }
}

/// Returns a time as QQ writes it, in the time zone of China.
pub(crate) fn timestamp(milliseconds: i64) -> String {
    let time = DateTime::from_timestamp_millis(milliseconds).unwrap_or_default();
    let china = FixedOffset::east_opt(8 * 3600);
    china.map_or_else(String::new, |china| {
        time.with_timezone(&china)
            .to_rfc3339_opts(SecondsFormat::Secs, false)
    })
}
