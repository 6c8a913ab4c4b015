//! The file of the index.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::database::private;

/// Marks the file as ours: "nano", but for the last letter.
const APPLICATION_ID: i32 = 0x6e61_6e69;
/// Grows with every change of the tables or of what is put into them: a file of any other version
/// is begun anew.
const VERSION: i32 = 1;
/// How long to wait for another process that writes.
const BUSY: Duration = Duration::from_secs(5);

/// Which of the two halves: their words are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Memory,
    Sessions,
}

impl Family {
    const ALL: [Self; 2] = [Self::Memory, Self::Sessions];

    /// What the names of its tables begin with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sessions => "session",
        }
    }

    /// A statement for its tables, which are written with `$`.
    pub(crate) fn sql(self, statement: &str) -> String {
        statement.replace('$', self.name())
    }
}

/// The beginnings of words that are indexed are those that many words have; longer ones are found
/// among the words. `position` is how far a file is indexed, and `tail` a fingerprint of what is before that; a
/// piece is a line, or a part of a long one.
const TABLES: &str = "
    CREATE TABLE $_source (
        id INTEGER PRIMARY KEY,
        folder TEXT NOT NULL,
        name TEXT NOT NULL,
        session TEXT,
        audience TEXT,
        length INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        identity INTEGER NOT NULL,
        position INTEGER NOT NULL,
        lines INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        tail INTEGER NOT NULL,
        UNIQUE (folder, name)
    ) STRICT;
    CREATE INDEX $_of_session ON $_source (session);
    CREATE TABLE $_piece (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL,
        line INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        start INTEGER NOT NULL,
        length INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX $_of_source ON $_piece (source);
    CREATE VIRTUAL TABLE $_words USING fts5(
        text, content = '', contentless_delete = 1, prefix = '3 4', tokenize = 'unicode61 remove_diacritics 2'
    );";

/// Opens the index, begun anew where it is of another version. Where no file can be had, it lives
/// in memory as long as this process.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    match open_file(path) {
        Err(error) if !is_damaged(&error) => {
            tracing::warn!(path = %path.display(), %error, "the search index cannot be kept in its file");
            let mut connection = Connection::open_in_memory()?;
            create(&mut connection)?;
            Ok(connection)
        }
        opened => opened,
    }
}

fn open_file(path: &Path) -> rusqlite::Result<Connection> {
    let made = path
        .parent()
        .map_or(Ok(()), private::create_folder)
        .and_then(|()| private::create_file(path));
    if let Err(error) = made {
        tracing::debug!(path = %path.display(), %error, "the file of the search index cannot be made");
    }
    let mut connection = connect(path)?;
    match version(&connection)? {
        (APPLICATION_ID, VERSION, _) => {}
        (0, 0, 0) => create(&mut connection)?,
        (application, version, _) => {
            tracing::info!(path = %path.display(), application, version, "a search index of another version is begun anew");
            drop(connection);
            remove(path);
            connection = connect(path)?;
            create(&mut connection)?;
        }
    }
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    // A power cut may cost the latest changes, which are in the files.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Whose the file is, its version, and how many tables there are.
fn version(connection: &Connection) -> rusqlite::Result<(i32, i32, i32)> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    let tables =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok((pragma("application_id")?, pragma("user_version")?, tables))
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if version(&transaction)? == (0, 0, 0) {
        for family in Family::ALL {
            transaction.execute_batch(&family.sql(TABLES))?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Whether an index that fails like this is best begun anew.
pub(crate) fn is_damaged(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        // `Unknown` is what a missing table gives.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => true,
        Some(_) => false,
        // A column that is not what it was made as.
        None => true,
    }
}

/// Removes the file and its companions, as far as that can be done.
pub(crate) fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let file = PathBuf::from(name);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %file.display(), %error, "a damaged search index cannot be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}
