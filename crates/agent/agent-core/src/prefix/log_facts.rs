//! What the log of a session says about the requests that were made of it.

use std::sync::Arc;
use std::time::Duration;

use nanobot_context::SessionFacts;
use nanobot_session::{Entry, Record, SessionView, replay};
use nanobot_types::{ChatMessage, Timestamp};

/// A session that is about to have a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogFacts {
    /// How long nothing was said before the turn.
    pub(crate) silent: Duration,
    /// Where the conversation begins.
    pub(super) cursor: u64,
    /// First message that was read: later than the beginning of a conversation that is too long.
    pub(super) begins: u64,
    /// Messages in the log.
    pub(super) head: u64,
    /// The conversation was begun anew where it begins.
    pub(super) reset: bool,
    /// Messages in the log when some were undone last.
    pub(super) rewound: Option<u64>,
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
        Self {
            // Clocks of platforms may go wrong: what was said in the future was said just now.
            silent: times
                .max()
                .and_then(|last| (*now - last).to_std().ok())
                .unwrap_or_default(),
            cursor: view.cursor.0,
            begins: view
                .records
                .iter()
                .find(|record| is_message(record))
                .map_or(view.cursor, |first| first.seq)
                .0,
            head: view.head.0,
            reset: records()
                .any(|record| record.seq == view.cursor && record.entry == Entry::Reset),
            rewound: records()
                .find(|record| matches!(record.entry, Entry::Rewound { .. }))
                .map(|record| record.seq.0),
            // A copy of another conversation was answered there.
            answered: !view.metadata.contains_key("forked_from")
                && (!view.answered.is_empty() || records().any(is_answer)),
        }
    }

    /// What the prompt depends on.
    pub(crate) fn for_context(&self) -> SessionFacts<'static> {
        SessionFacts {
            cursor: Some(self.cursor),
            silent: self.silent,
            ..SessionFacts::default()
        }
    }
}

/// The conversation of the last request that was answered, as a log tells it, and how many
/// messages the log had then: all that stood before the answer. `None` when the log has no
/// answer any more.
pub(super) fn last_request(view: &SessionView) -> Option<(Vec<Arc<ChatMessage>>, u64)> {
    let answer = view.records.iter().rposition(is_answer)?;
    let head = view.records.get(answer)?.seq;
    let records = view.records.get(..answer)?.to_vec();
    let (metadata, answered) = (view.metadata.clone(), view.answered.clone());
    let then = SessionView {
        head,
        cursor: view.cursor,
        metadata,
        answered,
        records,
    };
    Some((replay(&then).transcript.into_messages(), head.0))
}

fn is_message(record: &Record) -> bool {
    matches!(record.entry, Entry::Message(_))
}

/// Whether this program's model said it; the Python program writes no name.
fn is_answer(record: &Record) -> bool {
    match &record.entry {
        Entry::Message(entry) => {
            matches!(&*entry.message, ChatMessage::Assistant(said) if said.provider.is_some())
        }
        _ => false,
    }
}
