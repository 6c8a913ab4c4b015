//! The streamed reply of each received message.
//!
//! Decision: a message has one stream. It begins with the first draft of its turn, shows later
//! drafts of the turn in turn, and finishes with the reply. WeCom takes the last frame of a stream
//! within six minutes of the first, so an older one is finished as it is, and the reply is a
//! message of its own. The same holds for streams of an earlier connection that were not begun:
//! WeCom does not say for how long a `req_id` is valid on another one.
//!
//! A finishing frame without an answer may be repeated as it is. Whatever else comes after it is
//! sent without the stream.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::Value;
use serde_json::json;
use tokio::time::Instant;

/// The command of a reply.
pub(crate) const RESPOND: &str = "aibot_respond_msg";
/// Messages whose streams are remembered.
const MAX_TURNS: usize = 512;
/// Age of a stream that takes no more drafts, and at which it is finished with the next heartbeat.
const OVERDUE: Duration = Duration::from_secs(300);
/// Age of a stream that takes no reply any more, a little less than six minutes.
const EXPIRED: Duration = Duration::from_secs(350);
/// Age of a message that takes no reply any more, a little less than a day.
const OLD: Duration = Duration::from_hours(23);

/// The streams of a channel.
#[derive(Debug, Default)]
pub(crate) struct TurnStreams(Mutex<VecDeque<TurnStream>>);

/// The text of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamText {
    pub(crate) req_id: String,
    pub(crate) stream: String,
    pub(crate) text: String,
}

impl StreamText {
    /// Returns the command and the body of a frame.
    pub(crate) fn frame(&self, finish: bool) -> (&'static str, Value) {
        let stream = json!({"id": self.stream, "finish": finish, "content": self.text});
        (RESPOND, json!({"msgtype": "stream", "stream": stream}))
    }
}

#[derive(Debug)]
struct TurnStream {
    req_id: String,
    connection: u64,
    received: Instant,
    /// The id of the stream, and the time of its first frame.
    begun: Option<(String, Instant)>,
    /// The text that was shown last.
    shown: String,
    phase: Phase,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// A finishing frame for this part had no answer.
    InDoubt(String),
    Finished,
}

impl TurnStreams {
    /// Notes a message that may be replied to through this connection.
    pub(crate) fn receive(&self, req_id: &str, connection: u64) {
        if req_id.is_empty() {
            return;
        }
        self.change(|turns| {
            if turns.iter().any(|turn| turn.req_id == req_id) {
                return;
            }
            if turns.len() >= MAX_TURNS {
                turns.pop_front();
            }
            turns.push_back(TurnStream {
                req_id: req_id.to_owned(),
                connection,
                received: Instant::now(),
                begun: None,
                shown: String::new(),
                phase: Phase::Open,
            });
        });
    }

    /// `true` if the message was received by this process.
    pub(crate) fn knows(&self, req_id: &str) -> bool {
        self.with(req_id, |_| ()).is_some()
    }

    /// `true` if this is the stream of a message, begun by this process.
    pub(crate) fn has_begun(&self, req_id: &str, stream: &str) -> bool {
        let is_it = |turn: &mut TurnStream| turn.begun.as_ref().is_some_and(|(id, _)| id == stream);
        self.with(req_id, is_it).unwrap_or(false)
    }

    /// `true` if a draft can be shown in the stream of a message.
    pub(crate) fn takes_drafts(&self, req_id: &str, connection: u64) -> bool {
        self.with(req_id, |turn| turn.takes_drafts(connection))
            .unwrap_or(false)
    }

    /// Begins or continues a stream with this text. `None` if it takes no drafts any more.
    pub(crate) fn show(
        &self,
        req_id: &str,
        connection: u64,
        text: &str,
        new_id: impl FnOnce() -> String,
    ) -> Option<StreamText> {
        self.with(req_id, |turn| {
            if !turn.takes_drafts(connection) {
                return None;
            }
            text.clone_into(&mut turn.shown);
            Some(turn.text(text, new_id))
        })?
    }

    /// Returns the frame that finishes a stream with a reply. `None` if the reply has to be sent
    /// without the stream.
    pub(crate) fn finish(
        &self,
        req_id: &str,
        connection: u64,
        part: &str,
        text: &str,
        new_id: impl FnOnce() -> String,
    ) -> Option<StreamText> {
        self.with(req_id, |turn| {
            let is_right = match &turn.phase {
                Phase::Open => turn.takes_reply(connection),
                Phase::InDoubt(doubtful) => doubtful == part,
                Phase::Finished => false,
            };
            is_right.then(|| turn.text(text, new_id))
        })?
    }

    /// Notes that the finishing frame for a part had no answer. The next one has to be the same.
    pub(crate) fn doubt(&self, req_id: &str, part: &str) {
        self.with(req_id, |turn| turn.phase = Phase::InDoubt(part.to_owned()));
    }

    /// `true` if the finishing frame for a part had no answer.
    pub(crate) fn is_in_doubt(&self, req_id: &str, part: &str) -> bool {
        let doubtful = |turn: &mut TurnStream| turn.phase == Phase::InDoubt(part.to_owned());
        self.with(req_id, doubtful).unwrap_or(false)
    }

    /// Notes that a stream takes nothing any more.
    pub(crate) fn close(&self, req_id: &str) {
        self.with(req_id, |turn| turn.phase = Phase::Finished);
    }

    /// Returns an open stream that was begun.
    pub(crate) fn open_stream(&self, req_id: &str) -> Option<StreamText> {
        self.with(req_id, |turn| turn.open_stream())?
    }

    /// Returns an open stream that was begun, and closes it.
    pub(crate) fn take_open(&self, req_id: &str) -> Option<StreamText> {
        self.with(req_id, |turn| {
            let open = turn.open_stream()?;
            turn.phase = Phase::Finished;
            Some(open)
        })?
    }

    /// Returns the open streams that become too old, and closes them.
    pub(crate) fn take_overdue(&self, now: Instant) -> Vec<StreamText> {
        self.change(|turns| {
            let taken = turns.iter_mut().filter_map(|turn| {
                if turn.age(now)? < OVERDUE {
                    return None;
                }
                let open = turn.open_stream()?;
                turn.phase = Phase::Finished;
                Some(open)
            });
            taken.collect()
        })
    }

    fn with<R>(&self, req_id: &str, change: impl FnOnce(&mut TurnStream) -> R) -> Option<R> {
        self.change(|turns| {
            let turn = turns.iter_mut().find(|turn| turn.req_id == req_id)?;
            Some(change(turn))
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut VecDeque<TurnStream>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TurnStream {
    /// Returns the time since the first frame.
    fn age(&self, now: Instant) -> Option<Duration> {
        let (_, begun) = self.begun.as_ref()?;
        Some(now.saturating_duration_since(*begun))
    }

    fn takes_drafts(&self, connection: u64) -> bool {
        let age = self.age(Instant::now());
        self.phase == Phase::Open
            && self.connection == connection
            && self.is_fresh()
            && age.is_none_or(|age| age < OVERDUE)
    }

    fn takes_reply(&self, connection: u64) -> bool {
        match self.age(Instant::now()) {
            Some(age) => age < EXPIRED,
            None => self.connection == connection && self.is_fresh(),
        }
    }

    fn is_fresh(&self) -> bool {
        self.received.elapsed() < OLD
    }

    fn text(&mut self, text: &str, new_id: impl FnOnce() -> String) -> StreamText {
        let begun = self.begun.get_or_insert_with(|| (new_id(), Instant::now()));
        StreamText {
            req_id: self.req_id.clone(),
            stream: begun.0.clone(),
            text: text.to_owned(),
        }
    }

    fn open_stream(&self) -> Option<StreamText> {
        let (stream, _) = self.begun.as_ref()?;
        (self.phase == Phase::Open).then(|| StreamText {
            req_id: self.req_id.clone(),
            stream: stream.clone(),
            text: self.shown.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> TurnStreams {
        let streams = TurnStreams::default();
        streams.receive("r", 1);
        streams
    }

    fn id() -> String {
        "s".to_owned()
    }

    fn text(text: &str) -> Option<StreamText> {
        Some(StreamText {
            req_id: "r".to_owned(),
            stream: "s".to_owned(),
            text: text.to_owned(),
        })
    }

    fn other() -> String {
        "another".to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn drafts_and_reply_of_a_message_are_one_stream() {
        let streams = streams();
        assert!(streams.takes_drafts("r", 1) && !streams.takes_drafts("unknown", 1));
        assert_eq!(streams.open_stream("r"), None);
        assert_eq!(streams.show("r", 1, "a", id), text("a"));
        assert_eq!(streams.show("r", 1, "ab", other), text("ab"));
        assert_eq!(streams.open_stream("r"), text("ab"));
        assert_eq!(streams.finish("r", 1, "p", "abc", other), text("abc"));
        streams.close("r");
        assert_eq!(streams.finish("r", 1, "p", "abc", other), None);
        assert_eq!(streams.show("r", 1, "x", other), None);
        assert_eq!(streams.open_stream("r"), None);
        assert_eq!(streams.finish("unknown", 1, "p", "x", other), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_part_in_doubt_may_be_repeated() {
        let streams = streams();
        assert!(streams.finish("r", 1, "p", "a", id).is_some());
        streams.doubt("r", "p");
        assert!(streams.is_in_doubt("r", "p") && !streams.is_in_doubt("r", "q"));
        assert_eq!(streams.finish("r", 2, "q", "a", other), None);
        assert_eq!(streams.finish("r", 2, "p", "a", other), text("a"));
        assert_eq!(streams.take_overdue(Instant::now() + OLD), []);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_end_in_time() {
        let streams = streams();
        streams.show("r", 1, "a", id);
        assert_eq!(streams.take_overdue(Instant::now()), []);
        tokio::time::advance(OVERDUE).await;
        assert_eq!(streams.show("r", 1, "b", other), None);
        assert_eq!(streams.finish("r", 1, "p", "b", other), text("b"));
        // The reply did not arrive, so the draft stays.
        assert_eq!(streams.take_overdue(Instant::now()), [text("a").unwrap()]);
        assert_eq!(streams.finish("r", 1, "p", "b", other), None);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_stream_and_old_message_take_no_reply() {
        let streams = streams();
        streams.show("r", 1, "a", id);
        tokio::time::advance(EXPIRED).await;
        assert_eq!(streams.finish("r", 1, "p", "b", other), None);
        streams.receive("old", 1);
        tokio::time::advance(OLD).await;
        assert_eq!(streams.finish("old", 1, "p", "b", other), None);
    }

    #[tokio::test(start_paused = true)]
    async fn another_connection_takes_only_replies_of_begun_streams() {
        let streams = streams();
        assert!(!streams.takes_drafts("r", 2));
        assert_eq!(streams.finish("r", 2, "p", "a", other), None);
        streams.show("r", 1, "a", id);
        assert_eq!(streams.show("r", 2, "b", other), None);
        assert_eq!(streams.finish("r", 2, "p", "b", other), text("b"));
    }

    #[tokio::test]
    async fn oldest_messages_are_forgotten() {
        let streams = streams();
        for number in 0..MAX_TURNS {
            streams.receive(&number.to_string(), 1);
        }
        assert!(!streams.knows("r") && streams.knows("0"));
        assert!(!streams.takes_drafts("r", 1) && streams.takes_drafts("0", 1));
        streams.receive("", 1);
        assert!(!streams.takes_drafts("", 1));
    }
}
