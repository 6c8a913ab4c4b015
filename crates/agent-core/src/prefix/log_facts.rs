//! What the log of a session says about the requests that were made of it.

use std::time::Duration;

use nanobot_context::SessionFacts;
use nanobot_session::{Entry, Record, SessionView, replay};
use nanobot_types::{ChatMessage, Timestamp};

/// A session that is about to have a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFacts {
    /// How long nothing was said before the turn.
    pub(crate) silent: Duration,
    /// Where the conversation begins.
    pub(super) cursor: u64,
    /// Messages in the log.
    pub(super) head: u64,
    /// The conversation was begun anew where it begins.
    pub(super) reset: bool,
    /// Messages in the log when some were undone last.
    pub(super) rewound: Option<u64>,
    /// As many messages are left after some were undone that the last answered request had.
    pub(super) undone: Option<usize>,
    /// This program has had turns in this session before.
    pub(super) answered: bool,
}

impl LogFacts {
    /// Of a session as it is when something is said in it at `now`.
    pub(crate) fn of(view: &SessionView, now: &Timestamp) -> Self {
        let records = || view.records.iter().rev();
        let times = records().filter_map(|record| match &record.entry {
            Entry::Message(entry) => Some(entry.at),
            _ => None,
        });
        let is_left = undid_what_was_sent(&view.records);
        Self {
            // Clocks of platforms may go wrong: what was said in the future was said just now.
            silent: times.max().and_then(|last| (*now - last).to_std().ok()).unwrap_or_default(),
            cursor: view.cursor.0,
            head: view.head.0,
            reset: records().any(|record| record.seq == view.cursor && record.entry == Entry::Reset),
            rewound: records().find(|record| matches!(record.entry, Entry::Rewound { .. })).map(|record| record.seq.0),
            undone: is_left.then(|| messages_as_said(view)),
            // A copy of another conversation was answered there.
            answered: !view.metadata.contains_key("forked_from")
                && (!view.answered.is_empty() || records().any(is_answer)),
        }
    }

    /// What the prompt depends on.
    pub(crate) fn for_context(&self) -> SessionFacts<'static> {
        SessionFacts { cursor: Some(self.cursor), silent: self.silent, ..SessionFacts::default() }
    }
}

/// Messages of the conversation without results that are made up for calls whose own were undone.
fn messages_as_said(view: &SessionView) -> usize {
    let replayed = replay(view);
    let made_up = replayed.repairs.len() + replayed.open_turn.map_or(0, |open| open.pending.len());
    replayed.transcript.messages().len().saturating_sub(made_up)
}

/// Whether this program's model said it; the Python program writes no name.
fn is_answer(record: &Record) -> bool {
    match &record.entry {
        Entry::Message(entry) => matches!(&*entry.message, ChatMessage::Assistant(said) if said.provider.is_some()),
        _ => false,
    }
}

/// Whether something before the last answer was undone after it, so that the request which that
/// was the answer to is not the beginning of the next one.
fn undid_what_was_sent(records: &[Record]) -> bool {
    let Some(last) = records.iter().rposition(is_answer) else { return false };
    let Some(answer) = records.get(last) else { return false };
    records.iter().skip(last).any(|record| matches!(record.entry, Entry::Rewound { to } if to < answer.seq))
}
