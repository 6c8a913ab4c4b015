//! The state of a consolidation under way, as stored in the session's metadata.
//!
//! Decision: write-ahead. A chunk is noted before the model is asked to summarise it, and a summary
//! is noted before it is written to the memory files. After a crash in between, at most a write is
//! repeated that changes nothing, and the model is never asked for a second summary of the same
//! messages.

use nanobot_escape::{EXTERNAL_BANNER, ExternalText, close_external_text};
use nanobot_memory::Revision;
use nanobot_session::{CONSOLIDATION, Entry, Seq, SessionView};
use nanobot_types::{Map, NoticeKind, OutboundKey, OutboundSlot, SessionKey, Timestamp, TraceId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::backlog::{self, BacklogCost};
use super::notifier::BacklogQuestion;
use super::report::SummaryProgress;

/// Metadata key of the newest summary of a session, as in the Python program.
const LAST_SUMMARY: &str = "_last_summary";
/// Maximum number of characters of a session's summary.
const SUMMARY_LIMIT: usize = 8_000;

/// A position in a session: a message, and the number of its pieces that were processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) seq: u64,
    pub(super) piece: usize,
}

/// New facts, and the revision they are based on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rewrite {
    pub(super) text: String,
    base: u64,
}

impl Rewrite {
    pub(super) fn new(text: String, Revision(base): Revision) -> Self {
        Self { text, base }
    }

    pub(super) fn base(&self) -> Revision {
        Revision(self.base)
    }
}

/// Text that is about to be written to memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Flush {
    pub(super) at: Timestamp,
    pub(super) history: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<Rewrite>,
    /// `true` if it is the messages themselves instead of a summary.
    #[serde(default)]
    pub(super) raw: bool,
    /// `true` if strangers may have written some of the messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) untrusted: bool,
    /// The position up to which it goes.
    pub(super) done: Position,
}

/// The person's consent to summarise many messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Consent {
    /// They are few.
    #[default]
    NotNeeded,
    /// The person was asked. The messages leave the conversation and stay in the session.
    Awaited,
    /// The person agreed.
    Given,
}

impl Consent {
    fn is_not_needed(&self) -> bool {
        *self == Self::NotNeeded
    }
}

/// Messages that leave the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chunk {
    pub(super) from: u64,
    pub(super) upto: u64,
    #[serde(default)]
    pub(super) done: Position,
    /// `true` if a reset already ended their conversation, so there is no cursor to move.
    #[serde(default)]
    pub(super) left: bool,
    /// Number of failures of the model since it last succeeded.
    #[serde(default)]
    pub(super) failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) flush: Option<Flush>,
    /// `true` from the first part on that strangers may have written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) untrusted: bool,
    /// The summary of this chunk so far.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) summary: String,
    #[serde(default, skip_serializing_if = "Consent::is_not_needed")]
    pub(super) consent: Consent,
    /// The estimated cost of all of it, if it needs consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cost: Option<BacklogCost>,
    /// Time at which it began to wait for consent, which names its question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) waits_since: Option<Timestamp>,
    /// The turn whose reply contains the question about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_in: Option<TraceId>,
    /// `true` once the question about it is durable, or the person answered it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) asked: bool,
    /// The reason for which the model's failures ended its summaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
}

impl Chunk {
    pub(super) fn new(Seq(from): Seq, Seq(upto): Seq) -> Self {
        let done = Position {
            seq: from,
            piece: 0,
        };
        Self {
            from,
            upto,
            done,
            left: false,
            failures: 0,
            flush: None,
            untrusted: false,
            summary: String::new(),
            consent: Consent::NotNeeded,
            cost: None,
            waits_since: None,
            asked_in: None,
            asked: false,
            trouble: None,
        }
    }

    /// Makes the chunk wait for consent, which was not asked for yet.
    pub(super) fn await_consent(&mut self, trouble: Option<String>) {
        self.consent = Consent::Awaited;
        self.waits_since = Some(super::now());
        self.asked_in = None;
        self.asked = false;
        self.failures = 0;
        self.trouble = trouble;
    }

    /// Returns the key of the question about this chunk.
    fn question_key(&self, session: &SessionKey) -> OutboundKey {
        if let Some(turn) = &self.asked_in {
            return OutboundKey::new(turn.clone(), OutboundSlot::Reply);
        }
        let since = self.waits_since.unwrap_or_default().timestamp_micros();
        let turn = format!("backlog of {session} {} {since}", self.upto);
        OutboundKey::new(turn, OutboundSlot::Notice(NoticeKind::Backlog))
    }

    /// Returns the number of messages that are not summarised yet.
    pub(super) fn remaining(&self) -> u64 {
        self.upto.saturating_sub(self.done.seq.max(self.from))
    }

    /// Returns the estimated cost of the messages that are not summarised yet.
    fn remaining_cost(&self) -> BacklogCost {
        let cost = self.cost.unwrap_or_default();
        cost.of_part(self.remaining(), self.upto.saturating_sub(self.from))
    }

    /// Updates the chunk for the cursor of its session. Returns `true` if nothing of it is left to
    /// do.
    pub(super) fn update(&mut self, cursor: Seq) -> bool {
        let is_before_cursor = Seq(self.upto) <= cursor;
        if self.consent.is_not_needed() {
            // Clear the mark if the reset that belongs to it was not recorded.
            self.left &= is_before_cursor;
            return !self.left && is_before_cursor;
        }
        self.left = is_before_cursor;
        false
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        (self.from, self.upto) == (other.from, other.upto)
    }

    /// Notes text that is about to be written. What follows text of strangers is about it, so that
    /// it counts as theirs, too.
    pub(super) fn note(&mut self, mut flush: Flush) {
        self.untrusted |= flush.untrusted;
        if self.untrusted {
            flush.history = bounded(&flush.history);
        }
        self.flush = Some(flush);
    }

    /// Appends to the summary of this chunk.
    pub(super) fn summarised(&mut self, entry: &str) {
        if !self.summary.is_empty() {
            self.summary.push_str("\n\n");
        }
        self.summary.push_str(entry.trim());
        if let Some((end, _)) = self.summary.char_indices().nth(SUMMARY_LIMIT) {
            self.summary.truncate(end);
            self.summary = close_external_text(&self.summary).into_owned();
        }
    }
}

/// Puts an entry of the history into the bounds of strangers' text. Its time stays in front, where
/// searches look for it.
fn bounded(history: &str) -> String {
    let (time, text) = match history.split_once("] ") {
        Some((time, text)) if time.starts_with("[20") => (format!("{time}] "), text),
        _ => (String::new(), history),
    };
    let text = ExternalText::new(text).bounded();
    format!("{time}{EXTERNAL_BANNER}\n{text}")
}

/// Everything in a session that waits to be summarised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Pending {
    pub(super) chunks: Vec<Chunk>,
    /// `true` once the person was notified of a problem, until a chunk is finished without one.
    pub(super) told: bool,
}

impl Pending {
    /// Reads the state of a session. An unreadable state counts as empty, because its messages are
    /// still in the log.
    pub(super) fn of(view: &SessionView) -> Self {
        Self::in_metadata(&view.metadata)
    }

    pub(super) fn in_metadata(metadata: &Map) -> Self {
        let read = |value: &Value| Self::deserialize(value).ok();
        metadata
            .get(CONSOLIDATION)
            .and_then(read)
            .unwrap_or_default()
    }

    /// Returns the chunk to work on next. One with consent may take hours, so others come first.
    pub(super) fn next(&self) -> Option<&Chunk> {
        self.first(Consent::NotNeeded)
            .or_else(|| self.first(Consent::Given))
    }

    /// Returns the first chunk in this state of consent.
    pub(super) fn first(&self, consent: Consent) -> Option<&Chunk> {
        self.chunks.iter().find(|chunk| chunk.consent == consent)
    }

    /// Returns the progress of the chunks with consent; `None` if there are none.
    pub(super) fn progress(&self) -> Option<SummaryProgress> {
        let agreed = self.chunks.iter();
        let agreed = agreed.filter(|chunk| chunk.consent == Consent::Given);
        let (mut done, mut total) = (0_u64, 0_u64);
        for chunk in agreed {
            let length = chunk.upto.saturating_sub(chunk.from);
            total = total.saturating_add(length);
            done = done.saturating_add(length.saturating_sub(chunk.remaining()));
        }
        (total > 0).then_some(SummaryProgress { done, total })
    }

    fn waiting(&self) -> impl Iterator<Item = &Chunk> {
        let chunks = self.chunks.iter();
        chunks.filter(|chunk| chunk.consent == Consent::Awaited)
    }

    /// Returns the question about the messages that wait for consent; `None` if it was asked
    /// already.
    pub(super) fn question(&self, session: &SessionKey) -> Option<BacklogQuestion> {
        let key = self.unasked().last()?.question_key(session);
        let (cost, trouble) = self.waiting_cost();
        let text = backlog::question(cost, trouble.as_deref());
        Some(BacklogQuestion { text, key })
    }

    fn unasked(&self) -> impl Iterator<Item = &Chunk> {
        self.waiting().filter(|chunk| !chunk.asked)
    }

    /// Records that the reply of a turn will contain the question.
    pub(super) fn note_asking_reply(&mut self, turn: &TraceId) {
        self.chunks
            .iter_mut()
            .filter(|chunk| chunk.consent == Consent::Awaited && !chunk.asked)
            .for_each(|chunk| chunk.asked_in = Some(turn.clone()));
    }

    /// Returns the estimated cost of the messages that wait for consent, and the reason for which
    /// the model's failures ended earlier summaries of them.
    pub(super) fn waiting_cost(&self) -> (BacklogCost, Option<String>) {
        let cost = self.waiting().map(Chunk::remaining_cost).sum();
        let trouble = self.waiting().find_map(|chunk| chunk.trouble.clone());
        (cost, trouble)
    }

    /// Records that the question is durable, or answered.
    pub(super) fn mark_asked(&mut self) {
        let waiting = self.chunks.iter_mut();
        waiting
            .filter(|chunk| chunk.consent == Consent::Awaited)
            .for_each(|chunk| chunk.asked = true);
    }

    /// Returns the state as a change of the session's metadata.
    pub(super) fn change(&self) -> Map {
        let value = if *self == Self::default() {
            Value::Null
        } else {
            json!(self)
        };
        Map::from_iter([(CONSOLIDATION.to_owned(), value)])
    }

    /// Marks everything before `head` as dropped by a reset. Messages that are not summarised yet
    /// still will be: those that no chunk has yet become one, as `noted` changes it.
    pub(super) fn abandon(&mut self, cursor: Seq, head: Seq, noted: impl FnOnce(&mut Chunk)) {
        let mut from = cursor;
        for chunk in self.chunks.iter_mut().filter(|chunk| !chunk.left) {
            chunk.left = true;
            from = from.max(Seq(chunk.upto));
        }
        if from < head {
            let mut chunk = Chunk {
                left: true,
                ..Chunk::new(from, head)
            };
            noted(&mut chunk);
            self.chunks.push(chunk);
        }
    }
}

/// Returns the metadata change that a reset of a session needs, to be appended together with the
/// reset. `pending` is the state after it.
pub(super) fn reset_entry(pending: &Pending) -> Entry {
    let mut change = pending.change();
    change.insert(LAST_SUMMARY.to_owned(), Value::Null);
    Entry::Metadata(change)
}

/// Returns `true` if something in a session waits to be summarised, or if the person has to be asked
/// about it.
pub(crate) fn has_pending(view: &SessionView) -> bool {
    let pending = Pending::of(view);
    pending.next().is_some() || pending.unasked().next().is_some() || view.is_partial()
}

/// Returns `true` if a session's metadata says that something waits to be summarised.
pub(crate) fn metadata_has_pending(metadata: &Map) -> bool {
    Pending::in_metadata(metadata).next().is_some()
}

/// Returns the number of messages of a session that wait for the person's consent.
pub(crate) fn messages_waiting(view: &SessionView) -> u64 {
    Pending::of(view).waiting().map(Chunk::remaining).sum()
}

/// Returns the newest summary of a session's earlier conversation.
pub(crate) fn last_summary(view: &SessionView) -> Option<&str> {
    view.metadata
        .get(LAST_SUMMARY)?
        .get("text")?
        .as_str()
        .filter(|text| !text.trim().is_empty())
}

/// Returns a summary as a change of the session's metadata.
pub(super) fn summary_change(text: &str, at: &Timestamp) -> Map {
    Map::from_iter([(
        LAST_SUMMARY.to_owned(),
        json!({"text": text, "last_active": at.to_rfc3339()}),
    )])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_abandoned_range_is_queued_once() {
        let mut pending = Pending::default();
        pending.abandon(Seq(3), Seq(3), |_| {});
        assert_eq!(pending, Pending::default());
        pending.chunks.push(Chunk::new(Seq(3), Seq(7)));
        pending.abandon(Seq(3), Seq(12), |_| {});
        let bounds: Vec<_> = pending
            .chunks
            .iter()
            .map(|chunk| (chunk.from, chunk.upto, chunk.left))
            .collect();
        assert_eq!(bounds, [(3, 7, true), (7, 12, true)]);
        pending.abandon(Seq(12), Seq(15), |_| {});
        assert_eq!(pending.chunks.len(), 3);
    }

    #[test]
    fn question_keeps_its_key_until_messages_wait_again() {
        let session = SessionKey::from("telegram:1");
        let mut chunk = Chunk::new(Seq(0), Seq(900));
        chunk.await_consent(None);
        let mut pending = Pending {
            chunks: vec![chunk],
            told: false,
        };
        let first = pending.question(&session).unwrap();
        let restarted = Pending::in_metadata(&pending.change());
        assert_eq!(restarted.question(&session), Some(first.clone()));
        let other = restarted.question(&SessionKey::from("telegram:2"));
        assert_ne!(other.unwrap().key, first.key);

        pending.note_asking_reply(&"turn".into());
        let replied = pending.question(&session).unwrap();
        assert_eq!(replied.key, OutboundKey::new("turn", OutboundSlot::Reply));

        pending.mark_asked();
        assert_eq!(pending.question(&session), None);
        // The model failed after consent.
        pending.chunks[0].await_consent(Some("no key".to_owned()));
        pending.chunks[0].waits_since = Some(Timestamp::default());
        let again = pending.question(&session).unwrap();
        assert_ne!(again.key, first.key);
        assert_ne!(again.key, replied.key);
    }

    #[test]
    fn text_of_strangers_keeps_its_bounds() {
        let flush = |text: &str, untrusted| Flush {
            at: Timestamp::default(),
            history: format!("[2026-11-22 10:00] {text}"),
            facts: None,
            raw: false,
            untrusted,
            done: Position::default(),
        };
        let mut chunk = Chunk::new(Seq(0), Seq(9));
        let history = |chunk: &mut Chunk, text: &str, untrusted| {
            chunk.note(flush(text, untrusted));
            let noted = chunk.flush.take().unwrap().history;
            chunk.summarised(&noted);
            noted
        };
        assert_eq!(history(&mut chunk, "tea", false), "[2026-11-22 10:00] tea");
        let marked = history(&mut chunk, "a page", true);
        let begin = format!("[2026-11-22 10:00] {EXTERNAL_BANNER}\n[external content ");
        assert!(marked.starts_with(&begin), "{marked}");
        // The next part may be an answer about the page.
        let long = history(&mut chunk, &"很".repeat(SUMMARY_LIMIT), false);
        assert!(long.starts_with(&begin), "{long}");
        let bounds = chunk.summary.matches("[external content ").count();
        let ends = chunk.summary.matches("[end of external content ").count();
        assert_eq!((bounds, ends), (2, 2));
    }

    #[test]
    fn pending_state_round_trips() {
        let flush = Flush {
            at: Timestamp::default(),
            history: "h".to_owned(),
            facts: Some(Rewrite::new("f".to_owned(), Revision(u64::MAX))),
            raw: false,
            untrusted: false,
            done: Position { seq: 4, piece: 1 },
        };
        let chunk = Chunk {
            flush: Some(flush),
            failures: 2,
            ..Chunk::new(Seq(1), Seq(9))
        };
        let pending = Pending {
            chunks: vec![chunk],
            told: true,
        };
        let view = SessionView {
            metadata: pending.change(),
            ..SessionView::default()
        };
        assert_eq!(Pending::of(&view), pending);
        assert!(has_pending(&view));
        assert_eq!(
            Pending::default().change().get(CONSOLIDATION),
            Some(&Value::Null)
        );
        let broken = Map::from_iter([(CONSOLIDATION.to_owned(), json!("x"))]);
        assert_eq!(
            Pending::of(&SessionView {
                metadata: broken,
                ..SessionView::default()
            }),
            Pending::default()
        );
    }
}
