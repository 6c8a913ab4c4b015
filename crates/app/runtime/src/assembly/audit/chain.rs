//! A log of JSON lines in which each line contains the digest of the line before it.
//!
//! Decision: nothing is kept in memory. The number and the digest of the last line are in a head
//! file, which every append reads and writes under one lock, so that several processes continue one
//! chain. The line is written first: after a crash in between, the log is ahead of its head, never
//! behind it. A log that is behind its head was cut. Nothing is synced to disk, because a tool run
//! must not wait for that; a power loss may therefore look like a cut.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use nanobot_escape::visible_json;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::assembly::rotating_file::{LogSettings, RotatingFile};

/// Digest before the first line.
pub(super) const NO_LINE: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Length of the head file, in bytes; its JSON is padded to be replaced in one write.
const HEAD_LENGTH: usize = 256;
/// Maximum length of a line that is read, in bytes. Written ones are much shorter.
pub(super) const MAX_LINE: u64 = 1 << 20;

/// The last line of a log, and the first that rotation keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// Number of the first kept line.
    pub(super) first: u64,
    /// Number of the last line; 0 if there is none.
    pub(super) seq: u64,
    /// Digest of the last line.
    pub(super) hash: String,
    /// Size of the current file, in bytes.
    pub(super) bytes: u64,
}

/// The link that a line begins with.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Link {
    pub(super) seq: u64,
    pub(super) prev: String,
}

/// A line with its link.
#[derive(Serialize)]
struct Linked<'a, T> {
    seq: u64,
    prev: &'a str,
    #[serde(flatten)]
    record: &'a T,
}

/// A finding about the chain itself, recorded as a line of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub(super) enum ChainEvent {
    /// The last line was incomplete and was moved to `audit.log.torn`.
    Torn {
        /// Its length.
        bytes: u64,
        /// Its digest.
        sha256: String,
    },
    /// Lines at the end are missing.
    Cut {
        /// Number that the last line had.
        expected: u64,
        /// Digest of that line.
        hash: String,
    },
    /// The head file is missing or damaged, so missing lines cannot be noticed.
    HeadLost,
}

/// Appends lines to a log.
#[derive(Debug)]
pub(super) struct ChainedLog {
    path: PathBuf,
    settings: LogSettings,
    file: RotatingFile,
}

impl ChainedLog {
    /// Returns the log of this path. Nothing is opened yet.
    pub(super) fn new(path: PathBuf, settings: LogSettings) -> Self {
        let file = RotatingFile::new(&path, settings);
        Self {
            path,
            settings,
            file,
        }
    }

    /// Appends a record as the next line, in one write. Waits for the lock of the log.
    ///
    /// # Errors
    /// Returns the error of the system. The next append finds a partial line and moves it away.
    pub(super) fn append(&mut self, record: &impl Serialize) -> io::Result<()> {
        let lock = lock(&self.path)?;
        let appended = self.append_locked(record);
        drop(lock);
        appended
    }

    fn append_locked(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.file.open()?;
        let size = fs::metadata(&self.path)?.len();
        let mut head = match read_head(&self.path)? {
            Some(head) if head.bytes == size => head,
            stored => self.recover(stored)?,
        };
        self.write(&mut head, record)
    }

    fn write(&mut self, head: &mut Head, record: &impl Serialize) -> io::Result<()> {
        let seq = head.seq.saturating_add(1);
        let linked = Linked {
            seq,
            prev: &head.hash,
            record,
        };
        let line = visible_json(&serde_json::to_string(&linked)?);
        let hash = digest(line.as_bytes());
        let line = line + "\n";
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let limit = self.settings.max_bytes;
        if limit > 0 && head.bytes > 0 && head.bytes.saturating_add(length) > limit {
            // Before the rotation: a crash in between must not look like removed lines.
            head.first = self.first_after_rotation(head)?;
            write_head(&self.path, head)?;
            self.file.rotate()?;
            self.file.open()?;
            head.bytes = 0;
        }
        self.file.append_here(line.as_bytes())?;
        *head = Head {
            first: head.first,
            seq,
            hash,
            bytes: head.bytes.saturating_add(length),
        };
        write_head(&self.path, head)
    }

    /// Returns the number of the first line that the next rotation keeps.
    fn first_after_rotation(&self, head: &Head) -> io::Result<u64> {
        let keep = self.settings.keep_files;
        if keep == 0 {
            return Ok(head.seq.saturating_add(1));
        }
        // The oldest file that stays; without it nothing is dropped.
        let is_full = numbered(&self.path, keep).exists();
        let stays = match keep {
            1 => self.path.clone(),
            _ => numbered(&self.path, keep - 1),
        };
        if !is_full || !stays.exists() {
            return Ok(head.first);
        }
        let mut line = Vec::new();
        BufReader::new(File::open(stays)?.take(MAX_LINE)).read_until(b'\n', &mut line)?;
        Ok(link(&line).map_or(head.first, |link| link.seq))
    }

    /// Restores the head of a log whose size is not the recorded one, and records why.
    fn recover(&mut self, stored: Option<Head>) -> io::Result<Head> {
        let torn = self.move_torn_line()?;
        let size = fs::metadata(&self.path)?.len();
        let last = match last_line(&self.path)? {
            Some(line) => Some(line),
            None => last_line(&numbered(&self.path, 1))?,
        };
        let is_empty = last.is_none();
        let linked = last.as_deref().and_then(link);
        let mut head = Head {
            first: stored.as_ref().map_or(1, |head| head.first),
            seq: linked.as_ref().map_or(0, |link| link.seq),
            hash: last.map_or_else(|| NO_LINE.to_owned(), |line| digest(&line)),
            bytes: size,
        };
        let event = match stored {
            // Rotation that keeps no files removed it.
            Some(stored) if is_empty && stored.first > stored.seq => {
                head = Head {
                    bytes: size,
                    ..stored
                };
                None
            }
            Some(stored) if head.seq < stored.seq => {
                if is_empty {
                    head.seq = stored.seq;
                    head.hash.clone_from(&stored.hash);
                }
                Some(ChainEvent::Cut {
                    expected: stored.seq,
                    hash: stored.hash,
                })
            }
            None if linked.is_some() => Some(ChainEvent::HeadLost),
            Some(_) | None => None,
        };
        for event in torn.into_iter().chain(event) {
            let stamped = Stamped {
                time: now(),
                event: &event,
            };
            self.write(&mut head, &stamped)?;
        }
        Ok(head)
    }

    /// Moves an incomplete last line to `audit.log.torn`.
    fn move_torn_line(&self) -> io::Result<Option<ChainEvent>> {
        let mut file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let (start, tail) = after_last_newline(&mut file)?;
        if tail.is_empty() {
            return Ok(None);
        }
        let mut torn = self.path.clone().into_os_string();
        torn.push(".torn");
        let mut aside = private().append(true).open(torn)?;
        aside.write_all(&tail)?;
        aside.write_all(b"\n")?;
        file.set_len(start)?;
        Ok(Some(ChainEvent::Torn {
            bytes: u64::try_from(tail.len()).unwrap_or(u64::MAX),
            sha256: digest(&tail),
        }))
    }
}

#[derive(Serialize)]
struct Stamped<'a> {
    time: String,
    #[serde(flatten)]
    event: &'a ChainEvent,
}

/// Returns the local time with milliseconds.
pub(super) fn now() -> String {
    chrono::Local::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, false)
}

/// Locks the log for reading or appending, until the file is dropped.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let open = || private().write(true).open(path.with_extension("lock"));
    let file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            open()?
        }
        opened => opened?,
    };
    file.lock()?;
    Ok(file)
}

/// Returns the path of a rotated file.
pub(super) fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(format!(".{number}"));
    name.into()
}

/// Returns the head; `None` if its file is missing or damaged.
pub(super) fn read_head(path: &Path) -> io::Result<Option<Head>> {
    let mut text = Vec::new();
    let limit = u64::try_from(HEAD_LENGTH).unwrap_or(u64::MAX);
    match File::open(path.with_extension("head")) {
        Ok(file) => file.take(limit).read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(serde_json::from_slice(&text).ok())
}

fn write_head(path: &Path, head: &Head) -> io::Result<()> {
    let text = format!(
        "{:<width$}\n",
        serde_json::to_string(head)?,
        width = HEAD_LENGTH - 1
    );
    let mut file = private().write(true).open(path.with_extension("head"))?;
    file.write_all(text.as_bytes())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// Returns the link of a line; `None` for a line that is older than the chain.
pub(super) fn link(line: &[u8]) -> Option<Link> {
    serde_json::from_slice(line).ok()
}

/// Returns the SHA-256 as lower-case hexadecimal digits.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the last complete line of a file, without its newline.
fn last_line(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let start = size.saturating_sub(MAX_LINE);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(MAX_LINE).read_to_end(&mut tail)?;
    let Some((_, complete)) = tail.split_last().filter(|(last, _)| **last == b'\n') else {
        return Ok(None);
    };
    let line = complete.rsplit(|byte| *byte == b'\n').next();
    Ok(line.map(<[u8]>::to_vec))
}

/// Returns the place after the last newline and the bytes from there, of the last MiB.
fn after_last_newline(file: &mut File) -> io::Result<(u64, Vec<u8>)> {
    let size = file.metadata()?.len();
    let start = size.saturating_sub(MAX_LINE);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_LINE).read_to_end(&mut bytes)?;
    let kept = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |place| place + 1);
    let tail = bytes.split_off(kept);
    Ok((start.saturating_add(u64::try_from(kept).unwrap_or(0)), tail))
}
