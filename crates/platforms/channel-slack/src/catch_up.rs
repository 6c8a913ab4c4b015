//! Catch-up with messages that were posted while no connection received them.
//!
//! Decision: a conversation catches up in its own lane, before its live events, so that its order
//! stays; the [queue](crate::fetch_queue) limits how many fetch at once. A fetched message takes
//! the same path as a live one. Button presses and slash commands are in no history.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nanobot_channel::{ChannelContext, json};
use nanobot_channel_kit::backoff;
use nanobot_channel_kit::catch_up::{CatchUpMarks, Lag, MarkNote, NotedMark};
use nanobot_channel_kit::intake::Next;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::candidate::{Identity, message_candidate};
use crate::channel::Slack;
use crate::error::{CallError, Refusal};
use crate::history::Extent;
use crate::target::SendTarget;
use crate::wire::{SlackEvent, message_key};

/// Maximum number of conversations with a mark, and of threads.
pub(crate) const MAX_MARKS: usize = 100;
/// Age of the oldest message that is fetched.
const MAX_AGE: Duration = Duration::from_hours(24);
/// Silence after which a thread is not fetched.
const THREAD_MAX_AGE: Duration = Duration::from_hours(7 * 24);
/// Maximum number of new threads that are fetched in a conversation.
const MAX_NEW_THREADS: usize = 10;
/// Messages in a page, and maximum number of pages.
const PAGE_SIZE: &str = "200";
const MAX_PAGES: usize = 5;
/// Number of requests that may fail before the next connection tries again.
const MAX_ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that is waited for; a longer one is left to the next connection.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// The longest time that a live event waits for missed messages.
const LIVE_EVENT_TIMEOUT: Duration = Duration::from_secs(90);

/// The last handled `ts` of each conversation and thread.
pub(crate) type SlackMarks = CatchUpMarks<HeardNote>;

/// Missed messages of a conversation and its threads, unparsed.
type MissedMessages = nanobot_channel_kit::catch_up::Missed<HeardNote, Box<RawValue>>;

/// The note with the marks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct HeardNote {
    account: String,
    /// Conversation, thread and `ts`.
    places: Vec<(String, Option<String>, String)>,
}

impl MarkNote for HeardNote {
    const NAME: &'static str = "heard";
    const LIMIT: usize = MAX_MARKS;
    type Account = String;
    type Place = SendTarget;
    type Facts = ();
    type Cursor = String;

    fn new(account: &String, marks: impl Iterator<Item = NotedMark<Self>>) -> Self {
        Self {
            account: account.clone(),
            places: marks
                .map(|(SendTarget { chat, thread }, (), last)| (chat, thread, last))
                .collect(),
        }
    }

    fn into_parts(self) -> (String, Vec<NotedMark<Self>>) {
        let marks = self.places.into_iter();
        let marks = marks.map(|(chat, thread, last)| (SendTarget { chat, thread }, (), last));
        (self.account, marks.collect())
    }

    fn is_same_class(one: &SendTarget, other: &SendTarget) -> bool {
        one.thread.is_some() == other.thread.is_some()
    }
}

/// The fields of a message that are read before its attempt is noted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MessageHead {
    ts: Option<String>,
    latest_reply: Option<String>,
}

impl Slack {
    /// Fetches the missed messages of a conversation and its threads, and handles them.
    pub(crate) async fn catch_up(
        &self,
        me: &Identity,
        chat: &str,
        context: &ChannelContext,
    ) -> Next {
        self.fetches.begin(chat);
        let mut lags = self.marks.lags();
        lags.retain(|lag| lag.place.chat == chat);
        // The conversation before its threads: it shows new threads, or that it is gone.
        lags.sort_by(|one, other| one.place.cmp(&other.place));
        if lags.is_empty() {
            return Next::Confirm;
        }
        let missed = tokio::select! {
            biased;
            missed = self.fetch_missed(lags, context) => missed,
            () = self.live_event_timeout(chat) => {
                tracing::warn!(channel = %self.base.name, chat, "fetching missed messages took too long; the next connection tries again");
                return Next::Confirm;
            }
        };
        if !missed.messages.is_empty() {
            tracing::info!(channel = %self.base.name, chat, messages = missed.messages.len(), "missed messages were fetched");
        }
        let take = async |place: SendTarget, ts: String, message: Box<RawValue>| {
            self.handle_missed(me, &place, &ts, message.get(), context)
                .await
        };
        self.marks.deliver(missed, take).await
    }

    /// Handles a fetched message. Its attempt is noted before the message is parsed.
    async fn handle_missed(
        &self,
        me: &Identity,
        place: &SendTarget,
        ts: &str,
        message: &str,
        context: &ChannelContext,
    ) -> Next {
        let (key, progress) = (message_key(&place.chat, ts), context.progress.as_ref());
        let Some(handling) = self
            .base
            .quarantine
            .admit(&key, message.as_bytes(), progress)
            .await
        else {
            return Next::Confirm;
        };
        let event = parse_event(&place.chat, message).inspect_err(|error| {
            tracing::warn!(channel = %self.base.name, %error, "a malformed message was skipped");
        });
        match event
            .ok()
            .and_then(|event| message_candidate(&self.config, me, &event))
        {
            Some(candidate) => {
                self.handle_candidate("", candidate, handling, context)
                    .await
            }
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }

    /// Returns when a live event of the conversation has waited for [`LIVE_EVENT_TIMEOUT`].
    async fn live_event_timeout(&self, chat: &str) {
        self.fetches.event_waiting(chat).await;
        tokio::time::sleep(LIVE_EVENT_TIMEOUT).await;
    }

    /// Fetches the missed messages of a conversation and its threads, new threads included.
    async fn fetch_missed(
        &self,
        lags: Vec<Lag<HeardNote>>,
        context: &ChannelContext,
    ) -> MissedMessages {
        let mut missed = MissedMessages::default();
        let marked: Vec<SendTarget> = lags.iter().map(|lag| lag.place.clone()).collect();
        let mut lags = VecDeque::from(lags);
        let mut new_threads = 0;
        while let Some(lag) = lags.pop_front() {
            let place = &lag.place;
            if marked.contains(place) && !self.marks.contains(place) {
                continue;
            }
            if place.thread.is_some() && lag.after < ts_ago(THREAD_MAX_AGE) {
                let last = lag.after.clone();
                missed.caught_up.push((lag, last));
                continue;
            }
            let after = lag.after.clone().max(ts_ago(MAX_AGE));
            let Some(messages) = self.fetch_history(place, &after, context).await else {
                continue;
            };
            let mut newest = after.clone();
            for message in messages {
                let head = serde_json::from_str::<MessageHead>(message.get()).unwrap_or_default();
                // The first message of a thread comes along with its replies.
                let is_missed = |ts: &String| *ts > after && place.thread.as_ref() != Some(ts);
                let Some(ts) = head.ts.filter(is_missed) else {
                    continue;
                };
                let thread = SendTarget {
                    thread: Some(ts.clone()),
                    ..place.clone()
                };
                let has_replies = place.thread.is_none() && head.latest_reply.is_some();
                if has_replies && !marked.contains(&thread) && new_threads < MAX_NEW_THREADS {
                    new_threads += 1;
                    lags.push_back(lag.of(thread, ts.clone()));
                }
                newest = newest.max(ts.clone());
                let entry = missed.messages.entry(ts);
                entry.or_insert_with(|| (place.clone(), message));
            }
            missed.caught_up.push((lag, newest));
        }
        missed
    }

    /// Fetches the messages of a conversation or thread. `None` if that fails for now; the mark is
    /// removed if the place is gone.
    async fn fetch_history(
        &self,
        place: &SendTarget,
        oldest: &str,
        context: &ChannelContext,
    ) -> Option<Vec<Box<RawValue>>> {
        let extent = Extent {
            oldest,
            page: PAGE_SIZE,
            pages: MAX_PAGES,
            has_metadata: false,
        };
        let mut tries = 0;
        loop {
            let error = {
                let _permit = self.fetches.acquire(&place.chat).await?;
                match self.read_history(place, extent).await {
                    Ok((messages, is_all)) => {
                        if !is_all {
                            tracing::warn!(
                                channel = %self.base.name, chat = place.chat,
                                "more than 1000 messages were missed, and some of them are not fetched"
                            );
                        }
                        return Some(messages);
                    }
                    Err(CallError::RateLimited(pause)) if pause <= MAX_PAUSE => {
                        // The next request would get the same answer, so the permit is kept.
                        tokio::time::sleep(pause).await;
                        CallError::RateLimited(Duration::ZERO)
                    }
                    Err(error) => error,
                }
            };
            tries += 1;
            match &error {
                CallError::RateLimited(Duration::ZERO) if tries < MAX_ATTEMPTS => {}
                CallError::Unreachable(_)
                | CallError::Interrupted(_)
                | CallError::Misunderstood(_)
                    if tries < MAX_ATTEMPTS =>
                {
                    tokio::time::sleep(backoff(FIRST_PAUSE, tries - 1)).await;
                }
                CallError::Refused(refusal) if refusal.is_about_the_place() => {
                    tracing::info!(channel = %self.base.name, chat = place.chat, %error, "a conversation is gone");
                    // The threads of a conversation go with it.
                    self.marks.remove(|other| {
                        other == place || place.thread.is_none() && other.chat == place.chat
                    });
                    return None;
                }
                CallError::Refused(Refusal { code, needed }) if code == "missing_scope" => {
                    self.report_missing_scope(place, needed.as_deref(), context);
                    return Some(Vec::new());
                }
                _ => {
                    tracing::warn!(channel = %self.base.name, chat = place.chat, %error, "missed messages cannot be fetched now");
                    return None;
                }
            }
        }
    }

    /// Reports a scope that fetching needs, once per scope.
    fn report_missing_scope(
        &self,
        place: &SendTarget,
        needed: Option<&str>,
        context: &ChannelContext,
    ) {
        let usual = if place.chat.starts_with('D') {
            "im:history"
        } else {
            "channels:history"
        };
        let scope = needed.unwrap_or(usual);
        if self.fetches.is_new_scope(scope) {
            let why = format!(
                "what is said while nanobot is away cannot be fetched: the app needs the scope {scope}; add it and \
                 install the app again"
            );
            tracing::warn!(channel = %self.base.name, why, "a scope is missing");
            context.progress.degraded(&why);
        }
    }
}

/// Parses a fetched message into the event that would have brought it live.
fn parse_event(chat: &str, message: &str) -> Result<SlackEvent, serde_json::Error> {
    let mut event: SlackEvent = json::from_str(message)?;
    event.channel = Some(chat.to_owned());
    if event.thread_ts == event.ts {
        event.thread_ts = None;
    }
    Ok(event)
}

/// Returns the `ts` of a time ago.
fn ts_ago(time: Duration) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("{}.000000", now.saturating_sub(time).as_secs())
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{MAX_NOTE_BYTES, Notes as _};
    use nanobot_testkit::NoteBook;
    use serde_json::json;

    use super::*;

    fn place(chat: &str, thread: Option<&str>) -> SendTarget {
        SendTarget {
            chat: chat.to_owned(),
            thread: thread.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn note_round_trips_over_a_restart() {
        let (notes, marks) = (NoteBook::default(), SlackMarks::default());
        let note =
            json!({"account": "UBOT", "places": [["C1", null, "1.1"], ["C1", "1.1", "1.3"]]});
        notes
            .write(HeardNote::NAME, &note.to_string())
            .await
            .unwrap();
        marks.open(&notes).await;
        marks.open_gap(&"UBOT".to_owned());
        let lags = marks.lags();
        let places: Vec<_> = lags
            .iter()
            .map(|lag| (&lag.place, lag.after.as_str()))
            .collect();
        assert_eq!(
            places,
            [
                (&place("C1", Some("1.1")), "1.3"),
                (&place("C1", None), "1.1")
            ]
        );
        marks.add(&place("C2", None), (), "2.1".to_owned());
        marks.write(&notes).await;
        let noted: serde_json::Value = serde_json::from_str(&notes.all()[HeardNote::NAME]).unwrap();
        assert_eq!(
            noted,
            json!({"account": "UBOT", "places": [["C1", null, "1.1"], ["C1", "1.1", "1.3"], ["C2", null, "2.1"]]})
        );
    }

    #[tokio::test]
    async fn note_is_bounded_for_conversations_and_threads() {
        let (notes, marks) = (NoteBook::default(), SlackMarks::default());
        for number in 0..=MAX_MARKS {
            let chat = format!("C{number:010}");
            let ts = format!("{}.000001", 1_700_000_000 + number);
            marks.add(&place(&chat, None), (), ts.clone());
            marks.add(&place(&chat, Some(&ts)), (), ts);
        }
        marks.write(&notes).await;
        assert!(notes.all()[HeardNote::NAME].len() < MAX_NOTE_BYTES);
        marks.open_gap(&String::new());
        let lags = marks.lags();
        assert_eq!(lags.len(), 2 * MAX_MARKS);
        assert_eq!(
            lags.last().map(|lag| lag.place.chat.as_str()),
            Some("C0000000001")
        );
    }
}
