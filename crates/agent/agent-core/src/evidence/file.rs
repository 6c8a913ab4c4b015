//! The file of step notes: one JSON object per line, of which the last per turn counts.
//!
//! It contains turn ids and kinds of steps, but no text of a conversation. Torn or unknown lines
//! are skipped.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};
use nanobot_types::TraceId;
use serde::{Deserialize, Serialize};

use super::{Suspicion, TurnStep};

/// Size in bytes above which the file is rewritten.
const LONG: u64 = 1024 * 1024;
/// Maximum number of bytes read, from the end of the file.
const READ: u64 = 4 * LONG;
/// Maximum number of suspicions written to the file.
const TURNS: usize = 1024;

/// A line of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EvidenceLine {
    turn: TraceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<TurnStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suspicion: Option<Suspicion>,
}

impl EvidenceLine {
    pub(super) fn step(turn: &TraceId, step: TurnStep) -> Self {
        Self {
            turn: turn.clone(),
            step: Some(step),
            suspicion: None,
        }
    }

    pub(super) fn suspicion(turn: &TraceId, suspicion: Suspicion) -> Self {
        Self {
            turn: turn.clone(),
            step: None,
            suspicion: Some(suspicion),
        }
    }

    pub(super) fn ended(turn: &TraceId) -> Self {
        Self {
            turn: turn.clone(),
            step: None,
            suspicion: None,
        }
    }
}

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct EvidenceSnapshot {
    pub(super) under_way: BTreeMap<TraceId, TurnStep>,
    pub(super) suspicions: BTreeMap<TraceId, Suspicion>,
}

/// Reads a file. A missing or unreadable file counts as empty.
pub(super) fn read(path: &Path) -> EvidenceSnapshot {
    let text = match tail(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return EvidenceSnapshot::default();
        }
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "could not read step notes");
            return EvidenceSnapshot::default();
        }
    };
    let mut found = EvidenceSnapshot::default();
    for note in text
        .lines()
        .filter_map(|line| serde_json::from_str::<EvidenceLine>(line).ok())
    {
        let EvidenceLine {
            turn,
            step,
            suspicion,
        } = note;
        match (step, suspicion) {
            (Some(step), _) => {
                found.under_way.insert(turn, step);
            }
            (None, Some(suspicion)) => {
                found.suspicions.insert(turn, suspicion);
            }
            (None, None) => {
                found.under_way.remove(&turn);
                found.suspicions.remove(&turn);
            }
        }
    }
    found
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(READ)))?;
    let mut bytes = Vec::new();
    file.take(READ).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file being written.
#[derive(Debug)]
pub(super) struct NoteFile {
    path: PathBuf,
    file: Option<File>,
    length: u64,
}

impl NoteFile {
    /// Creates a new file with `suspicions`.
    pub(super) fn create(path: PathBuf, suspicions: &BTreeMap<TraceId, Suspicion>) -> Self {
        let mut created = Self {
            path,
            file: None,
            length: 0,
        };
        created.replace(&BTreeMap::new(), suspicions);
        created
    }

    pub(super) fn is_written(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn is_long(&self) -> bool {
        self.length > LONG
    }

    /// Appends a line. After a failure nothing more is written.
    pub(super) fn append(&mut self, note: &EvidenceLine) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let line = line(note)?;
        let written = file.write_all(&line);
        if written.is_err() {
            self.file = None;
        }
        self.length = self
            .length
            .saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        written
    }

    /// Rewrites the file, so that its size stays bounded.
    pub(super) fn replace(
        &mut self,
        under_way: &BTreeMap<TraceId, TurnStep>,
        suspicions: &BTreeMap<TraceId, Suspicion>,
    ) {
        match self.try_replace(under_way, suspicions) {
            Ok((file, length)) => {
                self.file = Some(file);
                self.length = length;
            }
            Err(error) => {
                self.file = None;
                tracing::warn!(%error, path = %self.path.display(), "could not write step notes");
            }
        }
    }

    fn try_replace(
        &self,
        under_way: &BTreeMap<TraceId, TurnStep>,
        suspicions: &BTreeMap<TraceId, Suspicion>,
    ) -> io::Result<(File, u64)> {
        let mut bytes = Vec::new();
        for (turn, suspicion) in suspicions.iter().take(TURNS) {
            bytes.extend(line(&EvidenceLine::suspicion(turn, *suspicion))?);
        }
        for (turn, step) in under_way {
            bytes.extend(line(&EvidenceLine::step(turn, *step))?);
        }
        replace_file(
            &LocalDisk,
            &self.path,
            &bytes,
            FileDraft::Private,
            Durability::Os,
        )?;
        let file = OpenOptions::new().append(true).open(&self.path)?;
        Ok((file, u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
    }
}

fn line(note: &EvidenceLine) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(note)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_unfinished_turns_and_skips_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.jsonl");
        let (a, b, c) = (TraceId::from("a"), TraceId::from("b"), TraceId::from("c"));
        let suspicion = Suspicion {
            suspect: true,
            owed: true,
            seen: 1,
        };
        let mut file = NoteFile::create(path.clone(), &BTreeMap::from([(c.clone(), suspicion)]));
        for note in [
            EvidenceLine::step(&a, TurnStep::Model),
            EvidenceLine::step(&b, TurnStep::Model),
            EvidenceLine::ended(&a),
            EvidenceLine::step(&b, TurnStep::Tools),
        ] {
            file.append(&note).unwrap();
        }
        let mut raw = OpenOptions::new().append(true).open(&path).unwrap();
        raw.write_all(b"\xff\xfe{\"turn\":\"b\",\"st").unwrap();
        let found = read(&path);
        assert_eq!(found.under_way, BTreeMap::from([(b, TurnStep::Tools)]));
        assert_eq!(found.suspicions, BTreeMap::from([(c, suspicion)]));
    }

    #[test]
    fn rewrites_long_files_and_reads_only_the_tail_of_huge_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.jsonl");
        let log = super::super::StepLog::open(&path);
        let stays = TraceId::from("stays");
        log.step(&stays, TurnStep::Tools);
        for turn in 0..30_000 {
            let turn = TraceId::from(format!("turn {turn}"));
            log.step(&turn, TurnStep::Model);
            log.ended(&turn);
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= LONG + 1_000);
        assert_eq!(
            read(&path).under_way,
            BTreeMap::from([(stays, TurnStep::Tools)])
        );

        let mut huge = vec![b'x'; 9 * 1024 * 1024];
        huge.extend(b"\n{\"turn\":\"a\",\"step\":\"tools\"}\n");
        std::fs::write(&path, huge).unwrap();
        assert_eq!(read(&path).under_way.len(), 1);
    }
}
