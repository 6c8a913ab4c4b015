//! Brings the index up to date with the files of a folder.
//!
//! Decision: a file is not opened if its length, modification time and identity are unchanged. An
//! append-only file, such as a session log or the history, is read from the position it was indexed
//! to; any other file is read again from the start. Commits are made in batches, so that an
//! interrupted first search has made progress. A file that cannot be read is left out and logged.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use nanobot_session::{session_files, session_of};
use nanobot_types::SessionKey;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::database::Corpus;
use super::lines::{LineFormat, heading};
use super::terms;

/// Number of pieces between two commits.
const BATCH: u64 = 5_000;
/// Maximum length of a line that is indexed, in bytes; the rest of a longer line is skipped.
const LINE_LIMIT: u64 = 4 << 20;
/// Maximum size of a piece of a line, in bytes.
const PIECE_LIMIT: usize = 16 << 10;
/// Number of bytes before the indexed position that must be unchanged.
const TAIL_LENGTH: u64 = 256;

/// A row of the sources.
#[derive(Clone, Debug, Default, PartialEq)]
struct SyncSource {
    id: i64,
    session: Option<String>,
    audience: Option<String>,
    stamp: SourceStamp,
    position: i64,
    lines: i64,
    messages: i64,
    tail: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SourceStamp {
    length: i64,
    modified: i64,
    identity: i64,
}

impl SourceStamp {
    fn of(metadata: &Metadata) -> Self {
        let since = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            length: signed(metadata.len()),
            modified: since.map_or(0, |since| {
                i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
            }),
            identity: identity(metadata),
        }
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> i64 {
    std::os::unix::fs::MetadataExt::ino(metadata).cast_signed()
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> i64 {
    0
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A file whose index is out of date.
struct Changed {
    path: PathBuf,
    name: String,
    form: LineFormat,
    source: Option<SyncSource>,
}

/// Indexes the changes in a folder, which need not exist.
pub(crate) fn bring_up_to_date(
    connection: &mut Connection,
    family: Corpus,
    folder: &Path,
) -> rusqlite::Result<()> {
    let mut stored_sources = stored_sources(connection, family, folder)?;
    let mut changed = Vec::new();
    for path in files(family, folder) {
        let Some(form) = LineFormat::of(family, &path) else {
            continue;
        };
        let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str())
            .map(str::to_owned)
        else {
            continue;
        };
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        if !metadata.is_file() {
            continue;
        }
        let source = stored_sources.remove(&name);
        if source
            .as_ref()
            .is_none_or(|source| source.stamp != SourceStamp::of(&metadata))
        {
            changed.push(Changed {
                path,
                name,
                form,
                source,
            });
        }
    }
    let mut indexing = Indexing {
        connection,
        family,
        folder,
    };
    for (name, source) in stored_sources {
        indexing.forget(&name, &source)?;
    }
    for file in changed {
        let path = file.path.clone();
        if let Err(error) = indexing.index(file)? {
            tracing::warn!(path = %path.display(), %error, "cannot index a file");
        }
    }
    Ok(())
}

fn files(family: Corpus, folder: &Path) -> Vec<PathBuf> {
    let listed = match family {
        Corpus::Sessions => session_files(folder),
        Corpus::Memory => match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries.map(|entries| {
                entries
                    .filter_map(Result::ok)
                    .map(|entry| entry.path())
                    .collect()
            }),
        },
    };
    listed.unwrap_or_else(|error| {
        tracing::warn!(folder = %folder.display(), %error, "cannot list a folder for the search index");
        Vec::new()
    })
}

fn stored_sources(
    connection: &Connection,
    family: Corpus,
    folder: &Path,
) -> rusqlite::Result<HashMap<String, SyncSource>> {
    let mut select = connection.prepare_cached(&family.sql(
        "SELECT name, id, session, audience, length, modified, identity, position, lines, messages, tail
         FROM $_source WHERE folder = ?1",
    ))?;
    let rows = select.query_map([folder.to_string_lossy()], |row| {
        let stamp = SourceStamp {
            length: row.get(4)?,
            modified: row.get(5)?,
            identity: row.get(6)?,
        };
        let source = SyncSource {
            id: row.get(1)?,
            session: row.get(2)?,
            audience: row.get(3)?,
            stamp,
            position: row.get(7)?,
            lines: row.get(8)?,
            messages: row.get(9)?,
            tail: row.get(10)?,
        };
        Ok((row.get(0)?, source))
    })?;
    rows.collect()
}

/// Writes one folder's files to the index.
struct Indexing<'a> {
    connection: &'a mut Connection,
    family: Corpus,
    folder: &'a Path,
}

impl Indexing<'_> {
    /// Indexes a file, from the indexed position or from the start. The inner error is about the
    /// file.
    fn index(&mut self, file: Changed) -> rusqlite::Result<io::Result<()>> {
        let Changed {
            path,
            name,
            form,
            source,
        } = file;
        let (stamp, file) = match File::open(&path)
            .and_then(|file| Ok((SourceStamp::of(&file.metadata()?), file)))
        {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let mut source = match source {
            Some(source) if form.grows(&path) && has_only_grown(&file, &source, stamp) => source,
            Some(source) => {
                self.forget(&name, &source)?;
                SyncSource::default()
            }
            None => SyncSource::default(),
        };
        let mut reader = BufReader::with_capacity(1 << 16, file);
        if let Err(error) = reader.seek(SeekFrom::Start(unsigned(source.position))) {
            return Ok(Err(error));
        }
        let mut lines = ChangedLines {
            reader,
            position: unsigned(source.position),
            form,
            heading: String::new(),
        };
        // Without a stamp the file counts as changed, until it has been read to its end.
        source.stamp = SourceStamp {
            identity: stamp.identity,
            ..SourceStamp::default()
        };
        loop {
            let transaction = self
                .connection
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            if !is_current(&transaction, self.family, self.folder, &name, &source)? {
                return Ok(Ok(()));
            }
            if source.id == 0 {
                source.id = insert_source(&transaction, self.family, self.folder, &name)?;
            }
            let (ended, outcome) = match lines.batch(&transaction, self.family, &mut source)? {
                Ok(ended) => (ended, Ok(())),
                Err(error) => (true, Err(error)),
            };
            source.position = signed(lines.position);
            source.tail = fingerprint_before(lines.reader.get_ref(), lines.position);
            if ended {
                source.stamp = stamp;
                let inside = source.session.as_deref().map(SessionKey::from);
                source.session = session_of(&path, inside.as_ref())
                    .map(|key| key.to_string())
                    .or(source.session);
            }
            save(&transaction, self.family, &source)?;
            transaction.commit()?;
            if ended {
                return Ok(outcome);
            }
        }
    }

    fn forget(&mut self, name: &str, source: &SyncSource) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !is_current(&transaction, self.family, self.folder, name, source)? {
            return Ok(());
        }
        let sql = |statement: &str| self.family.sql(statement);
        let words =
            sql("DELETE FROM $_words WHERE rowid IN (SELECT id FROM $_piece WHERE source = ?1)");
        transaction.execute(&words, [source.id])?;
        transaction.execute(&sql("DELETE FROM $_piece WHERE source = ?1"), [source.id])?;
        transaction.execute(&sql("DELETE FROM $_source WHERE id = ?1"), [source.id])?;
        transaction.commit()
    }
}

/// Returns `true` if the row of a file is unchanged, which means that no other process has indexed
/// the file meanwhile.
fn is_current(
    transaction: &Transaction<'_>,
    family: Corpus,
    folder: &Path,
    name: &str,
    source: &SyncSource,
) -> rusqlite::Result<bool> {
    let sql =
        family.sql("SELECT id, position, messages FROM $_source WHERE folder = ?1 AND name = ?2");
    let row = transaction
        .prepare_cached(&sql)?
        .query_row((folder.to_string_lossy(), name), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let expected = (source.id, source.position, source.messages);
    Ok(row == (source.id != 0).then_some(expected))
}

/// Returns `true` if the file only grew.
fn has_only_grown(file: &File, source: &SyncSource, stamp: SourceStamp) -> bool {
    source.position > 0
        && source.stamp.identity == stamp.identity
        && stamp.length >= source.position
        && fingerprint_before(file, unsigned(source.position)) == source.tail
}

/// Returns the FNV-1a hash of the bytes right before a position; 0 if they cannot be read.
fn fingerprint_before(mut file: &File, position: u64) -> i64 {
    let start = position.saturating_sub(TAIL_LENGTH);
    let mut bytes = Vec::new();
    let place = file.stream_position();
    let read = file
        .seek(SeekFrom::Start(start))
        .and_then(|_| file.take(position - start).read_to_end(&mut bytes));
    let back = place.and_then(|place| file.seek(SeekFrom::Start(place)));
    if read.is_err() || back.is_err() {
        return 0;
    }
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed()
}

fn save(
    transaction: &Transaction<'_>,
    family: Corpus,
    source: &SyncSource,
) -> rusqlite::Result<()> {
    let SyncSource {
        id,
        session,
        audience,
        stamp,
        position,
        lines,
        messages,
        tail,
    } = source;
    let sql = family.sql(
        "UPDATE $_source SET session = ?2, audience = ?3, length = ?4, modified = ?5, identity = ?6, position = ?7,
             lines = ?8, messages = ?9, tail = ?10
         WHERE id = ?1",
    );
    let SourceStamp {
        length,
        modified,
        identity,
    } = stamp;
    transaction.prepare_cached(&sql)?.execute(params![
        id, session, audience, length, modified, identity, position, lines, messages, tail
    ])?;
    Ok(())
}

/// The lines of a file that is being indexed.
struct ChangedLines {
    reader: BufReader<File>,
    /// Position after the last line that was read.
    position: u64,
    form: LineFormat,
    /// The current heading, in Markdown. The lines below it are found by its words too.
    heading: String,
}

impl ChangedLines {
    /// Indexes lines until there are enough for one commit. Returns `true` at the end of the file.
    /// The inner error is about the file.
    fn batch(
        &mut self,
        transaction: &Transaction<'_>,
        family: Corpus,
        source: &mut SyncSource,
    ) -> rusqlite::Result<io::Result<bool>> {
        let mut pieces = 0;
        let mut line = Vec::new();
        while pieces < BATCH {
            line.clear();
            let length = match self.next(&mut line) {
                Ok(0) => return Ok(Ok(true)),
                Ok(length) => length,
                Err(error) => return Ok(Err(error)),
            };
            let is_whole = line.ends_with(b"\n") || length > LINE_LIMIT;
            if !is_whole && self.form != LineFormat::Markdown {
                // An incomplete line of a log: either the rest follows later, or it never will.
                return Ok(Ok(true));
            }
            source.lines += 1;
            let read = self.form.read(&line);
            let place = (source.id, source.lines, source.messages, self.position);
            if read.is_message {
                source.messages += 1;
            }
            if let Some((session, audience)) = read.state {
                source.session = session.map(|key| key.to_string()).or(source.session.take());
                source.audience = audience;
            }
            pieces += self.add(transaction, family, &read.text, place, line.len())?;
            if !is_whole {
                // The whole file is read again once it has grown.
                self.position = 0;
                return Ok(Ok(true));
            }
            self.position += length;
        }
        Ok(Ok(false))
    }

    /// Reads the next line with its newline, or the beginning of one that is too long. Returns the
    /// length of the whole line.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<u64> {
        let mut length = self
            .reader
            .by_ref()
            .take(LINE_LIMIT)
            .read_until(b'\n', line)? as u64;
        if length < LINE_LIMIT || line.ends_with(b"\n") {
            return Ok(length);
        }
        let mut rest = Vec::new();
        loop {
            rest.clear();
            let read = self
                .reader
                .by_ref()
                .take(LINE_LIMIT)
                .read_until(b'\n', &mut rest)? as u64;
            length += read;
            if read == 0 || rest.ends_with(b"\n") {
                return Ok(length.max(LINE_LIMIT + 1));
            }
        }
    }

    /// Indexes the text of a line in pieces, and returns their number.
    fn add(
        &mut self,
        transaction: &Transaction<'_>,
        family: Corpus,
        text: &str,
        (source, line, seq, start): (i64, i64, i64, u64),
        length: usize,
    ) -> rusqlite::Result<u64> {
        let heading = heading(text).filter(|_| self.form == LineFormat::Markdown);
        if let Some(heading) = heading {
            heading.clone_into(&mut self.heading);
        }
        let mut piece = transaction.prepare_cached(&family.sql(
            "INSERT INTO $_piece (source, line, seq, start, length) VALUES (?1, ?2, ?3, ?4, ?5)",
        ))?;
        let mut words = transaction
            .prepare_cached(&family.sql("INSERT INTO $_words (rowid, text) VALUES (?1, ?2)"))?;
        let mut count = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let (part, behind) = rest
                .split_at_checked(rest.floor_char_boundary(PIECE_LIMIT))
                .unwrap_or((rest, ""));
            rest = behind;
            let mut indexed = terms::indexed(part);
            if heading.is_none() {
                indexed.push(' ');
                indexed.push_str(&terms::indexed(&self.heading));
            }
            let id = piece.insert(params![
                source,
                line,
                seq,
                signed(start),
                signed(length as u64)
            ])?;
            words.execute(params![id, indexed])?;
            count += 1;
        }
        Ok(count)
    }
}

/// Inserts an empty row for a file.
fn insert_source(
    transaction: &Transaction<'_>,
    family: Corpus,
    folder: &Path,
    name: &str,
) -> rusqlite::Result<i64> {
    let sql = family.sql(
        "INSERT INTO $_source (folder, name, length, modified, identity, position, lines, messages, tail)
         VALUES (?1, ?2, 0, 0, 0, 0, 0, 0, 0)",
    );
    transaction.execute(&sql, (folder.to_string_lossy(), name))?;
    Ok(transaction.last_insert_rowid())
}
