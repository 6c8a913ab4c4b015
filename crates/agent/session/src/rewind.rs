//! Rewinds a conversation, and restores what a rewind undid.
//!
//! Decision: undone messages stay in the log, and one line records the position from which they are
//! undone. Nothing else is written, so a rewind is atomic, and its cost does not depend on the
//! length of the conversation. Reading still costs as much as the undone messages, until the cursor
//! has passed them. The price: the Python program does not know this line and still sends the
//! undone messages.

use std::collections::HashSet;

use nanobot_types::{Map, SessionKey};

use crate::{Entry, ReadFrom, Record, Seq, SessionError, SessionStore, SessionView};

/// Undoes all messages from position `to` on. Returns the head, which does not move.
///
/// # Errors
/// Returns [`SessionError::OutOfReach`] if `to` is after the head, or before the cursor, where the
/// conversation is summarised or was reset; also any error of the store.
pub async fn rewind(
    store: &dyn SessionStore,
    key: &SessionKey,
    to: Seq,
) -> Result<Seq, SessionError> {
    let view = store.read(key, ReadFrom::Cursor).await?;
    if to < view.cursor || to > view.head {
        return Err(SessionError::OutOfReach {
            key: key.clone(),
            position: to,
            first: view.cursor,
            last: view.head,
        });
    }
    let undone = if to == view.head {
        Vec::new()
    } else {
        vec![Entry::Rewound { to }]
    };
    store.append(key, view.head, undone).await
}

/// Restores the messages that the latest rewind undid. Returns `false` and changes nothing if there
/// is no such rewind, a message follows it, or its messages are summarised by now.
///
/// # Errors
/// Returns any error of the store.
pub async fn restore_rewound(
    store: &dyn SessionStore,
    key: &SessionKey,
    note: Option<Map>,
) -> Result<bool, SessionError> {
    let view = store.read(key, ReadFrom::Cursor).await?;
    if view.restorable().is_none_or(|to| to < view.cursor) {
        return Ok(false);
    }
    let entries = [Entry::Restored].into_iter();
    let entries = entries.chain(note.map(Entry::Metadata)).collect();
    store.append(key, view.head, entries).await?;
    Ok(true)
}

impl SessionView {
    /// Returns the records without undone messages and without the ends of their turns.
    #[must_use]
    pub fn effective_records(&self) -> Vec<&Record> {
        let (restored, _) = self.rewinds();
        let mut records: Vec<&Record> = Vec::with_capacity(self.records.len());
        for (index, record) in self.records.iter().enumerate() {
            if let Entry::Rewound { to } = record.entry
                && !restored.contains(&index)
            {
                records.retain(|earlier| !is_undone(earlier, to));
            }
            records.push(record);
        }
        records
    }

    /// Returns the position of the latest rewind that can be restored.
    fn restorable(&self) -> Option<Seq> {
        let (_, open) = self.rewinds();
        let record = self.records.get(*open.last()?)?;
        match record.entry {
            Entry::Rewound { to } => Some(to),
            _ => None,
        }
    }

    /// Returns the indexes of the rewinds that were restored, and of those at the end of the log
    /// that were not.
    fn rewinds(&self) -> (HashSet<usize>, Vec<usize>) {
        let (mut restored, mut open) = (HashSet::new(), Vec::new());
        for (index, record) in self.records.iter().enumerate() {
            match record.entry {
                Entry::Message(_) => open.clear(),
                Entry::Rewound { .. } => open.push(index),
                Entry::Restored => restored.extend(open.pop()),
                Entry::TurnEnded(_)
                | Entry::Consolidated { .. }
                | Entry::Reset
                | Entry::Metadata(_) => {}
            }
        }
        (restored, open)
    }
}

fn is_undone(record: &Record, to: Seq) -> bool {
    match record.entry {
        Entry::Message(_) => record.seq >= to,
        Entry::TurnEnded(_) => record.seq > to,
        Entry::Consolidated { .. }
        | Entry::Reset
        | Entry::Rewound { .. }
        | Entry::Restored
        | Entry::Metadata(_) => false,
    }
}
