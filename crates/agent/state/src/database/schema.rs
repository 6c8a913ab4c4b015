//! The tables, version by version.
//!
//! Decision: a version is a list entry that is never edited after it was shipped; the file's
//! `user_version` counts how many were applied.

use rusqlite::Connection;

/// Marks the file as ours: "nano".
pub(super) const APPLICATION_ID: i32 = 0x6e61_6e6f;

/// The statements that lead from each version to the next.
const MIGRATIONS: [&str; 1] = [
    // `due_at` 0 is "now" and `out` 0 is "with nobody", so that what can be handed out is an
    // index of its own, however much is waiting or out. The body comes last: a look at the other
    // columns reads no overflow page.
    "CREATE TABLE ledger (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue TEXT NOT NULL,
        consumer TEXT NOT NULL,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        why TEXT,
        attempts INTEGER NOT NULL DEFAULT 0,
        parts_sent INTEGER NOT NULL DEFAULT 0,
        in_doubt INTEGER NOT NULL DEFAULT 0,
        out INTEGER NOT NULL DEFAULT 0,
        due_at INTEGER NOT NULL DEFAULT 0,
        accepted_at TEXT NOT NULL,
        settled_at INTEGER,
        body TEXT NOT NULL,
        UNIQUE (queue, name)
    ) STRICT;
    CREATE INDEX ledger_ready ON ledger (queue, consumer, id) WHERE state = 'pending' AND out = 0 AND due_at = 0;
    CREATE INDEX ledger_delayed ON ledger (queue, consumer, due_at) WHERE due_at > 0;
    CREATE INDEX ledger_out ON ledger (queue, consumer) WHERE out > 0;
    CREATE INDEX ledger_settled ON ledger (settled_at) WHERE settled_at IS NOT NULL;
    CREATE TABLE claim (slot TEXT PRIMARY KEY, taken_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE lease (
        name TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;",
];

/// The newest version known here.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// What a file says it is.
pub(super) enum Kind {
    /// Ours or empty, of this version.
    Ours(u32),
    /// Of a version that is not known yet.
    Newer(u32),
    /// Somebody else's.
    Foreign,
}

pub(super) fn kind(connection: &Connection) -> rusqlite::Result<Kind> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match application {
        APPLICATION_ID if version > VERSION => Kind::Newer(version),
        APPLICATION_ID => Kind::Ours(version),
        0 if tables == 0 => Kind::Ours(0),
        _ => Kind::Foreign,
    })
}

/// Applies what is missing, each version wholly or not at all.
pub(super) fn migrate(connection: &mut Connection, from: u32) -> rusqlite::Result<()> {
    let steps = (1_u32..)
        .zip(MIGRATIONS)
        .filter(|(version, _)| *version > from);
    for (version, statements) in steps {
        let transaction = connection.transaction()?;
        transaction.execute_batch(statements)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}
