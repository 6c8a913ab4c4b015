//! Reads the audit log with its rotated files, and checks its chain.
//!
//! The chain shows that lines were changed, removed or reordered by someone who did not compute all
//! later digests anew, and the head file that lines at the end were cut. Who can write to the folder
//! and computes everything anew leaves no trace; only a copy of the head hash elsewhere shows that.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use nanobot_config::Config;
use serde_json::Value;

use super::chain::{ChainEvent, Link, MAX_LINE, NO_LINE, digest, link, lock, numbered, read_head};

/// Result of checking the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Number of lines before the first broken one.
    pub intact: u64,
    /// Number of lines that an earlier version wrote without a chain.
    pub unchained: u64,
    /// Digest of the last intact line.
    pub head: Option<String>,
    /// First broken line.
    pub broken: Option<BrokenLine>,
}

/// A place where the chain is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLine {
    /// The file.
    pub file: PathBuf,
    /// Line within the file, from 1.
    pub line: u64,
    /// What is wrong, for the operator.
    pub reason: String,
}

/// Checks the audit log of a home. Blocks while another process appends.
///
/// # Errors
/// Returns the error of reading a file.
pub fn verify_audit(config: &Config) -> io::Result<AuditReport> {
    verify(&super::path(config))
}

/// Returns the lines of the audit log in order, those of rotated files first. A line that is not
/// JSON becomes a string.
///
/// # Errors
/// Returns the error of reading a file.
pub fn audit_lines(config: &Config) -> io::Result<Vec<Value>> {
    let path = super::path(config);
    let mut lines = Vec::new();
    for file in files(&path)? {
        each_line(&file, |_, line| {
            let text = || Value::from(String::from_utf8_lossy(line).into_owned());
            lines.push(serde_json::from_slice(line).unwrap_or_else(|_| text()));
            true
        })?;
    }
    Ok(lines)
}

pub(super) fn verify(path: &Path) -> io::Result<AuditReport> {
    let files = files(path)?;
    if files.is_empty() && read_head(path)?.is_none() {
        return Ok(AuditReport::default());
    }
    let lock = lock(path)?;
    let head = read_head(path)?;
    let mut check = Check {
        first: head.as_ref().map_or(1, |head| head.first),
        last: head.as_ref().map(|head| (head.seq, head.hash.clone())),
        hash: NO_LINE.to_owned(),
        ..Check::default()
    };
    let mut end = (path.to_path_buf(), 0);
    for file in &files {
        let mut broken = None;
        each_line(file, |number, line| {
            end = (file.clone(), number);
            broken = check.line(line).err().map(|(back, reason)| BrokenLine {
                file: file.clone(),
                line: number.saturating_sub(u64::from(back)).max(1),
                reason,
            });
            broken.is_none()
        })?;
        if broken.is_some() {
            return Ok(check.report(broken));
        }
    }
    drop(lock);
    let missing = check.missing_end().map(|reason| BrokenLine {
        file: end.0,
        line: end.1.saturating_add(1),
        reason,
    });
    Ok(check.report(missing))
}

#[derive(Default)]
struct Check {
    first: u64,
    last: Option<(u64, String)>,
    hash: String,
    /// Number of the line read last; 0 before the first.
    seq: u64,
    intact: u64,
    unchained: u64,
    has_older: bool,
}

impl Check {
    /// Checks a line. Fails with `true` if the line before it is the broken one, and the reason.
    fn line(&mut self, line: &[u8]) -> Result<(), (bool, String)> {
        let own = digest(line);
        let Some(link) = link(line) else {
            if self.seq > 0 || self.first > 1 {
                return Err((false, "the line has no number".to_owned()));
            }
            self.unchained += 1;
            self.hash = own;
            return Ok(());
        };
        if self.seq == 0 && link.seq < self.first {
            // Rotation dropped a later file; this one is no longer part of the log.
            self.has_older = true;
            self.hash = own;
            return Ok(());
        }
        self.check_link(&link)?;
        if let Some((seq, hash)) = &self.last
            && *seq == link.seq
            && *hash != own
        {
            return Err((
                false,
                "the line differs from the stored head hash".to_owned(),
            ));
        }
        if let Ok(event @ (ChainEvent::Cut { .. } | ChainEvent::HeadLost)) =
            serde_json::from_slice(line)
        {
            let reason = match event {
                ChainEvent::Cut { expected, .. } => format!(
                    "before this line, lines up to number {expected} were missing at the end of the log"
                ),
                _ => "before this line, the head hash was missing".to_owned(),
            };
            return Err((false, reason));
        }
        self.seq = link.seq;
        self.hash = own;
        self.intact += 1;
        Ok(())
    }

    fn check_link(&self, link: &Link) -> Result<(), (bool, String)> {
        let expected = if self.seq == 0 {
            self.first
        } else {
            self.seq.saturating_add(1)
        };
        if link.seq != expected {
            return Err((
                false,
                format!(
                    "number {expected} is expected here and {} is found",
                    link.seq
                ),
            ));
        }
        // Rotation removed the line before the first.
        let is_unknown = self.seq == 0 && (self.first > 1 || self.has_older);
        if is_unknown || link.prev == self.hash {
            return Ok(());
        }
        Err((
            true,
            "the line was changed: the digest in the next line differs".to_owned(),
        ))
    }

    fn missing_end(&self) -> Option<String> {
        match &self.last {
            None if self.seq > 0 => {
                Some("the head hash is missing: lines may have been cut".to_owned())
            }
            Some((last, _)) if self.seq < *last => Some(format!(
                "the lines with the numbers {} to {last} are missing",
                self.seq.saturating_add(1)
            )),
            _ => None,
        }
    }

    fn report(self, broken: Option<BrokenLine>) -> AuditReport {
        let back = broken
            .as_ref()
            .is_some_and(|broken| broken.reason.starts_with("the line was changed"));
        AuditReport {
            intact: self.intact.saturating_sub(u64::from(back)),
            unchained: self.unchained,
            head: (self.seq > 0).then_some(self.hash),
            broken,
        }
    }
}

/// Returns the existing files of the log, oldest first.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(Vec::new());
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| {
            let file = entry.ok()?.file_name();
            file.to_str()?
                .strip_prefix(name)?
                .strip_prefix('.')?
                .parse()
                .ok()
        })
        .collect();
    numbers.sort_unstable();
    let rotated = numbers
        .into_iter()
        .rev()
        .map(|number| numbered(path, number));
    let current = path.exists().then(|| path.to_path_buf());
    Ok(rotated.chain(current).collect())
}

/// Calls `visit` with each complete line and its number, until it returns `false`. An incomplete
/// last line is ignored: the next append moves it away.
fn each_line(file: &Path, mut visit: impl FnMut(u64, &[u8]) -> bool) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(file)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limited = &mut (&mut reader).take(MAX_LINE);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_too_long = u64::try_from(line.len()).is_ok_and(|length| length == MAX_LINE);
        match line.strip_suffix(b"\n") {
            Some(complete) if !visit(number, complete) => return Ok(()),
            None if is_too_long && !visit(number, &line) => return Ok(()),
            None if !is_too_long => return Ok(()),
            Some(_) | None => {}
        }
    }
    Ok(())
}
