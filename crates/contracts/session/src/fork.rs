//! Going on with a conversation a second time, beside the first.
//!
//! Decision: a fork is a session of its own that begins with a copy of the log. It replays to the
//! same bytes as the original did, knows where it came from (`forked_from` and `forked_at` in its
//! metadata), and shares nothing with it afterwards.

use nanobot_types::{Map, SessionKey};
use serde_json::Value;

use crate::{Entry, ReadFrom, Record, Seq, SessionError, SessionStore, SessionView};

/// Entries that are appended together: what is appended together may have to be read together.
const TOGETHER: usize = 256;

/// Copies a conversation into the new session `to`: all of it, or as it was right after its first
/// `at` messages. Returns the new head. A crash meanwhile leaves a shorter copy.
///
/// # Errors
/// [`SessionError::OutOfReach`] when there are fewer than `at` messages;
/// [`SessionError::Moved`] when `to` has messages already; what the store says.
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
        head = store.append(to, head, entries.to_vec()).await?;
    }
    Ok(head)
}

/// Copies a conversation into the first free session of the names `<from>:branch:1`,
/// `<from>:branch:2` and so on, and returns its name.
///
/// # Errors
/// As [`fork`].
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
            // Somebody else took that name meanwhile.
            Err(SessionError::Moved { .. }) => {}
            forked => return forked.map(|_| to),
        }
    }
}

/// The entries that make a new session what `view` was at a position.
fn copy(from: &SessionKey, view: &SessionView, at: Option<Seq>) -> Vec<Entry> {
    let records = until(&view.records, at);
    let messages: Vec<Seq> = records
        .iter()
        .filter(|record| is_message(record))
        .map(|record| record.seq)
        .collect();
    // A line that was damaged is not copied, so what stood behind it moves up.
    let moved = |seq: Seq| Seq(messages.partition_point(|message| *message < seq) as u64);
    let mut entries = vec![Entry::Metadata(provenance(from, view, at))];
    for record in records {
        match &record.entry {
            Entry::Metadata(_) => {}
            Entry::Consolidated { upto } => {
                entries.push(Entry::Consolidated { upto: moved(*upto) })
            }
            Entry::Rewound { to } => entries.push(Entry::Rewound { to: moved(*to) }),
            Entry::Message(_) | Entry::TurnEnded(_) | Entry::Reset => {
                entries.push(record.entry.clone())
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

/// The records up to a position: with the end of the turn there, without a step that leaves what
/// was said before it behind.
fn until(records: &[Record], at: Option<Seq>) -> &[Record] {
    let Some(at) = at else { return records };
    let goes_on = |record: &Record| match record.entry {
        Entry::TurnEnded(_) | Entry::Metadata(_) => record.seq > at,
        Entry::Message(_) | Entry::Consolidated { .. } | Entry::Reset | Entry::Rewound { .. } => {
            record.seq >= at
        }
    };
    let end = records.iter().position(goes_on).unwrap_or(records.len());
    records.get(..end).unwrap_or(records)
}

fn is_message(record: &Record) -> bool {
    matches!(record.entry, Entry::Message(_))
}

fn provenance(from: &SessionKey, view: &SessionView, at: Option<Seq>) -> Map {
    let mut metadata = view.metadata.clone();
    // What is being done with the original is not done with the copy as well.
    metadata.remove("_consolidation");
    metadata.insert("forked_from".to_owned(), Value::from(from.as_str()));
    metadata.insert(
        "forked_at".to_owned(),
        Value::from(at.unwrap_or(view.head).0),
    );
    metadata
}
