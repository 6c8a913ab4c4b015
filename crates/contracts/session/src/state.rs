//! What a session is beside its messages, and how each entry changes it.
//!
//! One reducer for every store, so that they cannot disagree about what an entry means.

use std::collections::VecDeque;

use nanobot_types::{Map, MessageId, Timestamp};

use crate::{Entry, Seq};

/// How many ended turns are remembered by the messages they answered.
const ANSWERED_TURNS: usize = 16;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) metadata: Map,
    pub(crate) cursor: Seq,
    /// The file also names the cursor as v0.3 does, which reads that name first.
    pub(crate) cursor_renamed: bool,
    /// Journal ids per ended turn, the newest turn last.
    pub(crate) answered: VecDeque<Vec<MessageId>>,
    /// What other programs keep on their metadata lines.
    pub(crate) extra: Map,
}

impl State {
    /// Takes in an entry that is appended behind `head` messages.
    pub(crate) fn apply(&mut self, entry: &Entry, head: Seq) {
        match entry {
            Entry::Message(_) | Entry::Rewound { .. } => {}
            Entry::TurnEnded(end) => self.remember(end.inbound.clone()),
            // Never backwards: a consolidation that began before a reset must not undo it.
            Entry::Consolidated { upto } => self.cursor = self.cursor.max((*upto).min(head)),
            Entry::Reset => self.cursor = head,
            Entry::Metadata(changes) => {
                for (key, value) in changes {
                    if value.is_null() {
                        self.metadata.remove(key);
                    } else {
                        self.metadata.insert(key.clone(), value.clone());
                    }
                }
            }
        }
    }

    /// Notes an append at `now`.
    pub(crate) fn touch(&mut self, now: Timestamp) {
        self.created_at.get_or_insert(now);
        self.updated_at = Some(now);
    }

    /// [`State::answered`] without the grouping.
    pub(crate) fn answered_ids(&self) -> Vec<MessageId> {
        self.answered.iter().flatten().cloned().collect()
    }

    fn remember(&mut self, inbound: Vec<MessageId>) {
        if inbound.is_empty() {
            return;
        }
        if self.answered.len() == ANSWERED_TURNS {
            self.answered.pop_front();
        }
        self.answered.push_back(inbound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_moves_forward_and_never_past_the_end() {
        let mut state = State::default();
        for (entry, cursor) in [
            (Entry::Consolidated { upto: Seq(3) }, 3),
            (Entry::Consolidated { upto: Seq(99) }, 10),
            (Entry::Consolidated { upto: Seq(4) }, 10),
        ] {
            state.apply(&entry, Seq(10));
            assert_eq!(state.cursor, Seq(cursor), "{entry:?}");
        }
        state.apply(&Entry::Reset, Seq(12));
        assert_eq!(state.cursor, Seq(12));
    }
}
