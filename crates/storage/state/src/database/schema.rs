//! Tables and migrations.
//!
//! Decision: a migration is never edited after it has shipped; the file's `user_version` counts the
//! applied ones.

use rusqlite::Connection;

/// Marks the file as ours: "nano".
pub(super) const APPLICATION_ID: i32 = 0x6e61_6e6f;

/// Statements that migrate each version to the next.
const MIGRATIONS: [&str; 2] = [
    // `due_at` 0 means "now" and `out` 0 means "not in flight", so that an index of its own covers
    // the entries that are ready, however many are waiting or in flight. The body comes last:
    // reading only the other columns touches no overflow page.
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
    // `session` and `job` are empty where there is none, because a key has no nulls. Amounts are
    // millionths of a US dollar; `unpriced` and the unit `tokens` count tokens without a price.
    "CREATE TABLE spend (
        day TEXT NOT NULL,
        session TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        purpose TEXT NOT NULL,
        job TEXT NOT NULL,
        requests INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        estimated INTEGER NOT NULL,
        prompt INTEGER NOT NULL,
        cached INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        completion INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        micros INTEGER NOT NULL,
        unpriced INTEGER NOT NULL,
        PRIMARY KEY (day, session, provider, model, purpose, job)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE spend_total (
        scope TEXT NOT NULL,
        name TEXT NOT NULL,
        unit TEXT NOT NULL,
        day TEXT NOT NULL,
        used INTEGER NOT NULL DEFAULT 0,
        raised INTEGER NOT NULL DEFAULT 0,
        warned INTEGER NOT NULL DEFAULT 0,
        exceeded INTEGER NOT NULL DEFAULT 0,
        agreed INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (scope, name, unit)
    ) STRICT, WITHOUT ROWID;",
];

/// The newest supported version.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Origin of a file.
pub(super) enum FileOrigin {
    /// Ours or empty, of this version.
    Ours(u32),
    /// Ours, of a version newer than this program supports.
    Newer(u32),
    /// A database of another program.
    Foreign,
}

pub(super) fn kind(connection: &Connection) -> rusqlite::Result<FileOrigin> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match application {
        APPLICATION_ID if version > VERSION => FileOrigin::Newer(version),
        APPLICATION_ID => FileOrigin::Ours(version),
        0 if tables == 0 => FileOrigin::Ours(0),
        _ => FileOrigin::Foreign,
    })
}

/// Applies the missing migrations, each in its own transaction.
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
