//! Reads from a session log what it shows about earlier requests.

use std::sync::Arc;
use std::time::Duration;

use nanobot_context::SessionFacts;
use nanobot_session::{Entry, ForkOrigin, Record, SessionView, replay};
use nanobot_types::{ChatMessage, Timestamp};

/// Facts from the log of a session that is about to have a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogFacts {
    /// Time since the last message before the turn.
    pub(crate) silent: Duration,
    /// Position at which the conversation begins.
    pub(super) cursor: u64,
    /// First message that was read. It is after `cursor` if the conversation is too long to be read
    /// whole.
    pub(super) begins: u64,
    /// Number of messages in the log.
    pub(super) head: u64,
    /// `true` if the conversation begins after a reset.
    pub(super) reset: bool,
    /// Number of messages in the log at the last rewind.
    pub(super) rewound: Option<u64>,
    /// `true` if this program has had turns in this session before.
    pub(super) answered: bool,
}

impl LogFacts {
    /// Reads the facts for a message that arrives at `now`.
    pub(crate) fn of(view: &SessionView, now: &Timestamp) -> Self {
        let records = || view.records.iter().rev();
        let times = records().filter_map(|record| match &record.entry {
            Entry::Message(entry) => Some(entry.at),
            _ => None,
        });
        Self {
            // Platform clocks may be wrong: a message from the future counts as sent just now.
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
            // In a copy, the answers belong to the original conversation.
            answered: !ForkOrigin::is_in(&view.metadata)
                && (!view.answered.is_empty() || records().any(is_answer)),
        }
    }

    /// Returns the facts that the prompt depends on.
    pub(crate) fn for_context(&self) -> SessionFacts<'static> {
        SessionFacts {
            cursor: Some(self.cursor),
            silent: self.silent,
            ..SessionFacts::default()
        }
    }
}

/// Reconstructs from the log the conversation of the last answered request, which is everything
/// before its answer, and the number of messages in the log at that time. Returns `None` if the log
/// no longer has an answer.
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

/// Returns `true` for a message of this program's model; the Python program records no provider.
fn is_answer(record: &Record) -> bool {
    match &record.entry {
        Entry::Message(entry) => {
            matches!(&*entry.message, ChatMessage::Assistant(said) if said.provider.is_some())
        }
        _ => false,
    }
}
