//! Forks: copies of a conversation that continue independently.
//!
//! Decision: a fork is a session of its own that begins with a copy of the log. It replays to the
//! same bytes as the original, records its origin (`forked_from` and `forked_at` in its metadata),
//! and shares nothing with the original afterwards.

use nanobot_types::{Map, SessionKey};

use crate::{
    CONSOLIDATION, Entry, ForkOrigin, ReadFrom, Record, Seq, SessionError, SessionStore,
    SessionView,
};

/// Maximum number of entries in one append. It is bounded because entries that are appended
/// together may have to be read together.
const TOGETHER: usize = 256;

/// Copies a conversation into the new session `to`: all of it, or its state after the first `at`
/// messages. Returns the new head. A crash during the copy leaves a shorter one; an error leaves none.
///
/// # Errors
/// Returns [`SessionError::OutOfReach`] if there are fewer than `at` messages,
/// [`SessionError::Moved`] if `to` already has messages, and any error of the store.
pub async fn fork(
    store: &dyn SessionStore,
    from: &SessionKey,
    at: Option<Seq>,
    to: &SessionKey,
) -> Result<Seq, SessionError> {
    let view = store.read(from, ReadFrom::Seq(Seq(0))).await?;
    if let Some(position) = at.filter(|position| *position > view.head) {
        return Err(SessionError::OutOfReach {
            key: from.clone(),
            position,
            first: Seq(0),
            last: view.head,
        });
    }
    let mut head = Seq(0);
    for entries in copy(from, &view, at).chunks(TOGETHER) {
        head = match store.append(to, head, entries.to_vec()).await {
            Ok(head) => head,
            Err(error) => {
                discard(store, to, &error).await;
                return Err(error);
            }
        };
    }
    Ok(head)
}

/// Removes an incomplete copy, unless another writer has the name.
async fn discard(store: &dyn SessionStore, copy: &SessionKey, why: &SessionError) {
    let Some(catalog) = store.catalog() else {
        return;
    };
    if matches!(why, SessionError::Moved { .. }) {
        return;
    }
    if let Err(error) = catalog.discard(copy).await {
        tracing::warn!(session = %copy, error = &error as &dyn std::error::Error, "an incomplete copy of a session remains");
    }
}

/// Copies a conversation into the first free session among `<from>:branch:1`, `<from>:branch:2` and
/// so on, and returns its key.
///
/// # Errors
/// Same as [`fork`].
pub async fn branch(
    store: &dyn SessionStore,
    from: &SessionKey,
    at: Option<Seq>,
) -> Result<SessionKey, SessionError> {
    let mut number = 0_u32;
    loop {
        number += 1;
        let to = SessionKey::from(format!("{from}:branch:{number}"));
        if store.read(&to, ReadFrom::Cursor).await? != SessionView::default() {
            continue;
        }
        match fork(store, from, at, &to).await {
            // Another writer took this name in the meantime.
            Err(SessionError::Moved { .. }) => {}
            forked => return forked.map(|_| to),
        }
    }
}

/// Returns the entries that give a new session the state of `view` at a position.
fn copy(from: &SessionKey, view: &SessionView, at: Option<Seq>) -> Vec<Entry> {
    let records = records_until(&view.records, at);
    let messages: Vec<Seq> = records
        .iter()
        .filter(|record| is_message(record))
        .map(|record| record.seq)
        .collect();
    // Damaged lines are not copied, so the positions of later messages move up.
    let moved = |seq: Seq| Seq(messages.partition_point(|message| *message < seq) as u64);
    let mut entries = vec![Entry::Metadata(provenance(from, view, at))];
    for record in records {
        match &record.entry {
            Entry::Metadata(_) => {}
            Entry::Consolidated { upto } => {
                entries.push(Entry::Consolidated { upto: moved(*upto) });
            }
            Entry::Rewound { to } => entries.push(Entry::Rewound { to: moved(*to) }),
            Entry::Message(_) | Entry::TurnEnded(_) | Entry::Reset | Entry::Restored => {
                entries.push(record.entry.clone());
            }
        }
    }
    // Other programs move the cursor without an entry.
    if at.is_none_or(|at| view.cursor < at) && view.cursor > Seq(0) {
        entries.push(Entry::Consolidated {
            upto: moved(view.cursor),
        });
    }
    entries
}

/// Returns the records up to a position. The end of a turn at that position is included. A
/// consolidation, reset or rewind at that position is not, because it would hide the messages
/// before it.
fn records_until(records: &[Record], at: Option<Seq>) -> &[Record] {
    let Some(at) = at else { return records };
    let goes_on = |record: &Record| match record.entry {
        Entry::TurnEnded(_) | Entry::Metadata(_) => record.seq > at,
        Entry::Message(_)
        | Entry::Consolidated { .. }
        | Entry::Reset
        | Entry::Rewound { .. }
        | Entry::Restored => record.seq >= at,
    };
    let end = records.iter().position(goes_on).unwrap_or(records.len());
    records.get(..end).unwrap_or(records)
}

fn is_message(record: &Record) -> bool {
    matches!(record.entry, Entry::Message(_))
}

fn provenance(from: &SessionKey, view: &SessionView, at: Option<Seq>) -> Map {
    let mut metadata = view.metadata.clone();
    // A consolidation of the original in progress does not apply to the copy.
    metadata.remove(CONSOLIDATION);
    let origin = ForkOrigin {
        from: from.clone(),
        at: at.unwrap_or(view.head),
    };
    origin.write(&mut metadata);
    metadata
}
