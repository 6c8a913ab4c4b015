//! The file of the index.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::database::private;

/// Marks the file as an index: "nani".
const APPLICATION_ID: i32 = 0x6e61_6e69;
/// Increases with each change of the tables or of their contents. A file of any other version is
/// recreated.
const VERSION: i32 = 1;
/// Time to wait for another process that writes.
const BUSY: Duration = Duration::from_secs(5);

/// One half of the index. Word frequencies are counted separately for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Corpus {
    Memory,
    Sessions,
}

impl Corpus {
    const ALL: [Self; 2] = [Self::Memory, Self::Sessions];

    /// Returns the prefix of its table names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sessions => "session",
        }
    }

    /// Returns a statement with each `$` replaced by the prefix of its tables.
    pub(crate) fn sql(self, statement: &str) -> String {
        statement.replace('$', self.name())
    }
}

/// Prefixes of three and four characters are indexed, because many words share them; longer ones
/// are looked up among the words. `position` is how far a file is indexed, and `tail` a fingerprint
/// of the bytes before it. A piece is a line, or a part of a long one.
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

/// Opens the index. An index of another version is recreated. If the file cannot be used, the index
/// lives in memory as long as this process.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    match open_file(path) {
        Err(error) if !is_damaged(&error) => {
            tracing::warn!(path = %path.display(), %error, "cannot use the file of the search index; keeping the index in memory");
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
        tracing::debug!(path = %path.display(), %error, "cannot create the file of the search index");
    }
    let mut connection = connect(path)?;
    match version(&connection)? {
        (APPLICATION_ID, VERSION, _) => {}
        (0, 0, 0) => create(&mut connection)?,
        (application, version, _) => {
            tracing::info!(path = %path.display(), application, version, "recreating a search index of another version");
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
    // A power cut may lose the latest changes, which can be read from the files again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Returns the application id, the version and the number of tables.
fn version(connection: &Connection) -> rusqlite::Result<(i32, i32, i32)> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    let tables =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok((pragma("application_id")?, pragma("user_version")?, tables))
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have created the tables first.
    if version(&transaction)? == (0, 0, 0) {
        for family in Corpus::ALL {
            transaction.execute_batch(&family.sql(TABLES))?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Returns `true` if an index that fails like this should be recreated.
pub(crate) fn is_damaged(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        // `Unknown` is the code for a missing table.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => true,
        Some(_) => false,
        // A column does not have the expected type.
        None => true,
    }
}

/// Removes the file, its log and its shared memory, as far as possible.
pub(crate) fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let file = PathBuf::from(name);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %file.display(), %error, "cannot remove a search index");
            }
            Ok(()) | Err(_) => {}
        }
    }
}
