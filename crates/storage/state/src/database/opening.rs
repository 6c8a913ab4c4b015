//! Opens the file: checks which program it belongs to, its version and its integrity.
//!
//! Decision: a damaged file is moved aside and a new one created, because nothing in it is worth a
//! gateway that does not start; it is never deleted. A file of a newer version or of another
//! program is refused and left alone. The integrity check runs if the last process did not close
//! the file, which its remaining write-ahead log shows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::cause;
use super::private;
use super::schema::{self, FileOrigin};
use crate::StateError;

/// Time to wait for another process that holds the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size that the write-ahead log keeps after a checkpoint, in bytes.
const LOG_LIMIT: i64 = 4 << 20;

/// An open database.
pub(super) struct OpenedDatabase {
    pub(super) connection: Connection,
    /// New path of a damaged predecessor.
    pub(super) moved_aside: Option<PathBuf>,
}

pub(super) fn open(path: &Path) -> Result<OpenedDatabase, StateError> {
    let file_fault = |action| {
        move |source| StateError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    if let Some(folder) = path.parent() {
        private::create_folder(folder).map_err(file_fault("create the folder of"))?;
    }
    private::create_file(path).map_err(file_fault("create"))?;
    match connect(path) {
        Ok(connection) => Ok(OpenedDatabase {
            connection,
            moved_aside: None,
        }),
        Err(OpenError::Final(error)) => Err(error),
        Err(OpenError::Damaged(what)) => {
            let aside = move_aside(path).map_err(file_fault("move aside the damaged"))?;
            tracing::warn!(
                file = %path.display(),
                moved_to = %aside.display(),
                problem = what,
                "a damaged state database was moved aside and a new one created; conversations are not \
                 affected, messages that were still queued are in the damaged file"
            );
            private::create_file(path).map_err(file_fault("create"))?;
            match connect(path) {
                Ok(connection) => Ok(OpenedDatabase {
                    connection,
                    moved_aside: Some(aside),
                }),
                Err(OpenError::Final(error)) => Err(error),
                Err(OpenError::Damaged(what)) => {
                    Err(database_error(path, "create a new file", what.into()))
                }
            }
        }
    }
}

enum OpenError {
    Damaged(String),
    Final(StateError),
}

fn connect(path: &Path) -> Result<Connection, OpenError> {
    let fault = |action| fault(path, action);
    let left_open = fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(fault("open it"))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(fault("open it"))?;
    // Until the file is known to be sound and ours, closing it must not write the log back into it.
    keep_log_on_close(&connection, left_open).map_err(fault("open it"))?;
    let version = own_version(path, &connection)?;
    if left_open {
        let verdict: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(fault("check it after a crash"))?;
        if verdict != "ok" {
            return Err(OpenError::Damaged(verdict));
        }
    }
    let mode = configure(&connection).map_err(fault("set it up"))?;
    if mode != "wal" {
        return Err(OpenError::Final(StateError::NoWriteAheadLog {
            path: path.to_owned(),
            mode,
        }));
    }
    schema::migrate(&mut connection, version).map_err(fault("bring it up to date"))?;
    keep_log_on_close(&connection, false).map_err(fault("set it up"))?;
    Ok(connection)
}

/// Returns a description of the damage, if there is any, without changing the file.
pub(super) fn examine(path: &Path) -> Result<Option<String>, StateError> {
    match inspect(path) {
        Ok(verdict) => Ok((verdict != "ok").then_some(verdict)),
        Err(OpenError::Damaged(what)) => Ok(Some(what)),
        Err(OpenError::Final(error)) => Err(error),
    }
}

/// Runs `query` on a read-only connection. Without a write-ahead log the file is read without locks,
/// so that nothing is created next to it.
pub(crate) fn open_read_only<T>(
    path: &Path,
    query: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> Result<T, StateError> {
    let read = |name: &Path, flags: OpenFlags| {
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(name, flags).map_err(fault(path, "open it"))?;
        connection
            .busy_timeout(BUSY_TIMEOUT)
            .map_err(fault(path, "open it"))?;
        own_version(path, &connection)?;
        query(&connection).map_err(fault(path, "read it"))
    };
    let is_open = with_suffix(path, "-wal").exists();
    let answer = if is_open {
        read(path, OpenFlags::empty())
    } else {
        read(immutable_uri(path).as_ref(), OpenFlags::SQLITE_OPEN_URI)
    };
    answer.map_err(|error| match error {
        OpenError::Final(error) => error,
        OpenError::Damaged(what) => database_error(path, "read it", what.into()),
    })
}

/// Reads the whole file. Without a write-ahead log it is complete, and is read without locks: a
/// connection with locks creates files next to it, which need room and would remain.
fn inspect(path: &Path) -> Result<String, OpenError> {
    let log = with_suffix(path, "-wal");
    if log.exists() {
        return read(path, path, OpenFlags::empty());
    }
    let verdict = read(
        path,
        immutable_uri(path).as_ref(),
        OpenFlags::SQLITE_OPEN_URI,
    );
    match verdict {
        // A process that opened the file meanwhile may have changed it during the check.
        _ if log.exists() => read(path, path, OpenFlags::empty()),
        verdict => verdict,
    }
}

/// Returns the URI by which SQLite reads a file that no process changes.
fn immutable_uri(path: &Path) -> String {
    let path = path.to_string_lossy();
    let path = path.replace('%', "%25").replace('?', "%3f");
    format!("file:{}?immutable=1", path.replace('#', "%23"))
}

fn read(path: &Path, name: &Path, flags: OpenFlags) -> Result<String, OpenError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(name, flags).map_err(fault(path, "open it"))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(fault(path, "open it"))?;
    own_version(path, &connection)?;
    connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(fault(path, "check it"))
}

/// Returns the version of the file if it is ours.
fn own_version(path: &Path, connection: &Connection) -> Result<u32, OpenError> {
    match schema::kind(connection).map_err(fault(path, "read its version"))? {
        FileOrigin::Ours(version) => Ok(version),
        FileOrigin::Newer(found) => Err(OpenError::Final(StateError::Newer {
            path: path.to_owned(),
            found,
            known: schema::VERSION,
        })),
        FileOrigin::Foreign => Err(OpenError::Final(StateError::Foreign {
            path: path.to_owned(),
        })),
    }
}

fn fault(path: &Path, action: &'static str) -> impl Fn(rusqlite::Error) -> OpenError {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Damaged(error.to_string())
        }
        _ => OpenError::Final(database_error(path, action, cause(Arc::new(error)))),
    }
}

/// Sets whether closing keeps the write-ahead log. If it is kept, the next opening runs the
/// integrity check.
pub(super) fn keep_log_on_close(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
        .map(drop)
}

/// Makes commits durable, and returns the journal mode that the file system supports.
fn configure(connection: &Connection) -> rusqlite::Result<String> {
    let mode = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Where a plain fsync leaves data in the drive's cache (macOS), request a full one.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT, |_| Ok(()))?;
    Ok(mode)
}

fn database_error(
    path: &Path,
    action: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
) -> StateError {
    StateError::Database {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Renames the file, its log and its shared memory to an unused name, which is returned.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let stamp = chrono::Utc::now().format("%Y%m%dT%H%M%S%3f");
    let aside = with_suffix(path, &format!(".damaged-{stamp}"));
    for companion in ["-wal", "-shm"] {
        match fs::rename(with_suffix(path, companion), with_suffix(&aside, companion)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Returns `path` with a suffix appended to its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
