//! Going back in a conversation.
//!
//! Decision: what is undone stays where it is, and one line says from where on it is. That line is
//! all that is written, so going back is atomic and costs nothing however long the conversation
//! is; reading it costs what the undone messages cost, until the cursor has passed them. The
//! price: the Python program knows no such line and still sends what was undone.

use nanobot_types::SessionKey;

use crate::{Entry, ReadFrom, Record, Seq, SessionError, SessionStore, SessionView};

/// Undoes everything from position `to` on. Returns the head, which does not move.
///
/// # Errors
/// [`SessionError::OutOfReach`] when `to` lies before the cursor, where the conversation is
/// summarised or was left behind, or behind the head; what the store says.
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
    /// The records without the messages that were undone, and without the ends of their turns.
    #[must_use]
    pub fn standing(&self) -> Vec<&Record> {
        let mut standing: Vec<&Record> = Vec::with_capacity(self.records.len());
        for record in &self.records {
            if let Entry::Rewound { to } = record.entry {
                standing.retain(|earlier| !is_undone(earlier, to));
            }
            standing.push(record);
        }
        standing
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
