//! Memory of decrypted messages, against replays.
//!
//! A homeserver could deliver a message a second time, as another event. So each message, which
//! is a session and an index in it, belongs to the first event that it was seen in.
//! `matrix-sdk-crypto` leaves this to its users.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};

/// The name of the database.
const DATABASE: &str = "nanobot-seen.sqlite3";

/// Bytes of a digest that are stored.
const DIGEST: usize = 16;

/// The database of seen messages.
#[derive(Debug)]
pub(crate) struct ReplayGuard {
    database: Connection,
}

/// The relation of a message to what was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It was not seen.
    New,
    /// It was seen in the same event.
    Again,
    /// It was seen in another event.
    Replay,
}

/// A message and the event that it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) room: &'a str,
    pub(crate) session: &'a str,
    pub(crate) index: u32,
    pub(crate) event: &'a str,
    pub(crate) timestamp: u64,
}

impl ReplayGuard {
    /// Opens the database in `folder`, creating it if there is none.
    pub(crate) fn open(folder: &Path) -> rusqlite::Result<Self> {
        let database = Connection::open(folder.join(DATABASE))?;
        database.busy_timeout(Duration::from_secs(5))?;
        database.execute_batch(
            "PRAGMA journal_mode = wal;
             PRAGMA synchronous = full;
             PRAGMA cache_size = -200;
             CREATE TABLE IF NOT EXISTS seen (
                 session BLOB NOT NULL,
                 message INTEGER NOT NULL,
                 event BLOB NOT NULL,
                 PRIMARY KEY (session, message)
             ) WITHOUT ROWID;",
        )?;
        Ok(Self { database })
    }

    /// Compares a message with those before, and remembers it.
    pub(crate) fn admit(&self, seen: Seen<'_>) -> rusqlite::Result<Admission> {
        let session = digest(&[seen.room.as_bytes(), seen.session.as_bytes()]);
        let event = digest(&[seen.event.as_bytes(), &seen.timestamp.to_be_bytes()]);
        let known: Option<Vec<u8>> = self
            .database
            .prepare_cached("SELECT event FROM seen WHERE session = ?1 AND message = ?2")?
            .query_row(params![session, seen.index], |row| row.get(0))
            .optional()?;
        match known {
            Some(known) if known == event => return Ok(Admission::Again),
            Some(_) => return Ok(Admission::Replay),
            None => {}
        }
        self.database
            .prepare_cached("INSERT INTO seen (session, message, event) VALUES (?1, ?2, ?3)")?
            .execute(params![session, seen.index, event])?;
        Ok(Admission::New)
    }
}

/// Returns a digest of parts. It includes their lengths, so that the same bytes in other parts have
/// another digest.
fn digest(parts: &[&[u8]]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into_iter().take(DIGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_belongs_to_its_first_event() {
        let folder = tempfile::tempdir().unwrap();
        let first = Seen {
            room: "!room:server",
            session: "session",
            index: 0,
            event: "$first",
            timestamp: 1,
        };
        let guard = ReplayGuard::open(folder.path()).unwrap();
        assert_eq!(guard.admit(first).unwrap(), Admission::New);
        assert_eq!(guard.admit(first).unwrap(), Admission::Again);
        drop(guard);
        let guard = ReplayGuard::open(folder.path()).unwrap();
        assert_eq!(guard.admit(first).unwrap(), Admission::Again);
        for replay in [
            Seen {
                event: "$second",
                ..first
            },
            Seen {
                timestamp: 2,
                ..first
            },
        ] {
            assert_eq!(
                guard.admit(replay).unwrap(),
                Admission::Replay,
                "{replay:?}"
            );
        }
        for other in [
            Seen {
                index: 1,
                event: "$second",
                ..first
            },
            Seen {
                session: "other",
                event: "$second",
                ..first
            },
            Seen {
                room: "!other:server",
                event: "$second",
                ..first
            },
        ] {
            assert_eq!(guard.admit(other).unwrap(), Admission::New, "{other:?}");
        }
    }
}
