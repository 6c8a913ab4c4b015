//! State of a session other than its messages, and the effect of each entry on it.
//!
//! There is one reducer for all stores, so that they agree on the meaning of an entry.

use std::collections::VecDeque;

use nanobot_types::{Map, MessageId, Timestamp};

use crate::{Entry, Seq};

/// Maximum number of ended turns whose inbound messages are remembered.
const ANSWERED_TURNS: usize = 16;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SessionState {
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) metadata: Map,
    pub(crate) cursor: Seq,
    /// Set if the file also has the cursor under the name of v0.3, which reads that name first.
    pub(crate) cursor_renamed: bool,
    /// Journal ids of each ended turn, the newest turn last.
    pub(crate) answered: VecDeque<Vec<MessageId>>,
    /// Fields of other programs on their metadata lines.
    pub(crate) extra: Map,
}

impl SessionState {
    /// Applies an entry that is appended after `head` messages.
    pub(crate) fn apply(&mut self, entry: &Entry, head: Seq) {
        match entry {
            Entry::Message(_) | Entry::Rewound { .. } | Entry::Restored => {}
            Entry::TurnEnded(end) => self.remember(end.inbound.clone()),
            // Never move the cursor back: a consolidation that started before a reset must not undo
            // it.
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

    /// Records an append at `now`.
    pub(crate) fn touch(&mut self, now: Timestamp) {
        self.created_at.get_or_insert(now);
        self.updated_at = Some(now);
    }

    /// Returns [`SessionState::answered`] without the grouping by turn.
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
        let mut state = SessionState::default();
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
