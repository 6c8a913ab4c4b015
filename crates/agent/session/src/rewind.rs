//! Rewinds a conversation.
//!
//! Decision: undone messages stay in the log, and one line records the position from which they are
//! undone. Nothing else is written, so a rewind is atomic, and its cost does not depend on the
//! length of the conversation. Reading still costs as much as the undone messages, until the cursor
//! has passed them. The price: the Python program does not know this line and still sends the
//! undone messages.

use nanobot_types::SessionKey;

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

impl SessionView {
    /// Returns the records without undone messages and without the ends of their turns.
    #[must_use]
    pub fn effective_records(&self) -> Vec<&Record> {
        let mut records: Vec<&Record> = Vec::with_capacity(self.records.len());
        for record in &self.records {
            if let Entry::Rewound { to } = record.entry {
                records.retain(|earlier| !is_undone(earlier, to));
            }
            records.push(record);
        }
        records
    }
}

fn is_undone(record: &Record, to: Seq) -> bool {
    match record.entry {
        Entry::Message(_) => record.seq >= to,
        Entry::TurnEnded(_) => record.seq > to,
        Entry::Consolidated { .. } | Entry::Reset | Entry::Rewound { .. } | Entry::Metadata(_) => {
            false
        }
    }
}
