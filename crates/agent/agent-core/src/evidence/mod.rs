//! Evidence of which turn brought the process down.
//!
//! Decision: every step of a turn is noted in a file before it is taken, with one small write and
//! no sync: the operating system keeps what it was given when a process dies. The next start reads
//! the notes ([`verdict`]). An attempt is counted against the turn whose step was under way; where
//! the notes name several, none is blamed yet, and these suspects run one at a time until each has
//! ended or the process dies with one of them alone. Turns that only waited for a model go on at
//! once, unless they were under way in two crashes in a row.
//!
//! After a power cut, notes that never reached the disk are missing: then no attempt is counted.
//! An orderly end leaves no notes.

mod file;
mod verdict;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_types::TraceId;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::file::NoteFile;

/// A step of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Its session is read, or a command runs.
    Opening,
    /// A model was asked and has not finished its answer: nearly all of it is waiting.
    Model,
    /// An answer of the model is read.
    Answer,
    /// Tools run.
    Tools,
}

/// Suspicion against a turn that was under way when a process died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Suspicion {
    /// It runs beside no other suspect.
    suspect: bool,
    /// An attempt that the ledger has not counted yet.
    owed: bool,
    /// Crashes in a row in which it was under way.
    seen: u32,
}

/// Notes of the steps under way, and what the notes of the process before say. One for a ledger:
/// two processes must not share a file.
#[derive(Debug)]
pub struct StepLog {
    notes: Mutex<Notes>,
    /// One suspect at a time.
    suspects: Arc<Semaphore>,
}

#[derive(Debug)]
struct Notes {
    file: NoteFile,
    under_way: BTreeMap<TraceId, Step>,
    suspicions: BTreeMap<TraceId, Suspicion>,
}

impl StepLog {
    /// Reads what the process before left in `path` and begins to take notes there. A file that
    /// cannot be read is no evidence; one that cannot be written is reported once, and attempts
    /// are counted when a turn begins then.
    #[must_use]
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let found = file::read(&path);
        let suspicions = verdict::of(&found.under_way, &found.suspicions);
        for (turn, suspicion) in suspicions.iter().filter(|(_, suspicion)| suspicion.suspect) {
            tracing::warn!(%turn, counted = suspicion.owed, "the process died during a step of this turn");
        }
        let file = NoteFile::create(path, &suspicions);
        let notes = Mutex::new(Notes {
            file,
            under_way: BTreeMap::new(),
            suspicions,
        });
        Self {
            notes,
            suspects: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns the permit that a suspect holds while it runs. What else may have ended the process before,
    /// such as a message that is read, takes it too: then neither is blamed for the other.
    #[must_use]
    pub fn suspects(&self) -> Arc<Semaphore> {
        Arc::clone(&self.suspects)
    }

    /// `true` if notes reach the file.
    pub(crate) fn is_written(&self) -> bool {
        self.notes().file.is_written()
    }

    /// Notes that a turn takes a step.
    pub(crate) fn take(&self, turn: &TraceId, step: Step) {
        let mut notes = self.notes();
        if notes.under_way.get(turn) != Some(&step) {
            notes.under_way.insert(turn.clone(), step);
            notes.write(turn, &file::Note::step(turn, step));
        }
    }

    /// Notes that a turn, or a try of it, is over. What it was suspected of is forgotten.
    pub(crate) fn over(&self, turn: &TraceId) {
        let mut notes = self.notes();
        let was_under_way = notes.under_way.remove(turn).is_some();
        let was_suspect = notes.suspicions.remove(turn).is_some();
        if was_under_way || was_suspect {
            notes.write(turn, &file::Note::over(turn));
        }
    }

    /// `true` if the ledger has yet to count an attempt of this turn.
    pub(crate) fn owes(&self, turn: &TraceId) -> bool {
        self.notes()
            .suspicions
            .get(turn)
            .is_some_and(|suspicion| suspicion.owed)
    }

    /// Notes that the ledger counted that attempt.
    pub(crate) fn paid(&self, turn: &TraceId) {
        let mut notes = self.notes();
        let Some(suspicion) = notes.suspicions.get_mut(turn) else {
            return;
        };
        suspicion.owed = false;
        let suspicion = *suspicion;
        notes.write(turn, &file::Note::suspicion(turn, suspicion));
    }

    /// Waits until no other suspect runs, when this turn is one. Cancel-safe.
    pub(crate) async fn admit(&self, turn: &TraceId) -> Option<SemaphorePermit<'_>> {
        let is_suspect = self
            .notes()
            .suspicions
            .get(turn)
            .is_some_and(|suspicion| suspicion.suspect);
        if is_suspect {
            self.suspects.acquire().await.ok()
        } else {
            None
        }
    }

    /// Forgets everything: the process ends in order.
    pub(crate) fn close(&self) {
        let mut notes = self.notes();
        notes.under_way.clear();
        notes.suspicions.clear();
        notes.rewrite();
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    fn write(&mut self, turn: &TraceId, note: &file::Note) {
        if self.file.append(note).is_err() {
            tracing::warn!(%turn, "steps cannot be noted; attempts are counted when turns begin");
        }
        if self.file.is_long() {
            self.rewrite();
        }
    }

    fn rewrite(&mut self) {
        self.file.replace(&self.under_way, &self.suspicions);
    }
}

/// The notes of one turn; nothing where none are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnSteps(Option<(Arc<StepLog>, TraceId)>);

impl TurnSteps {
    /// Notes of `turn` in `log`.
    pub(crate) fn of(log: Option<&Arc<StepLog>>, turn: &TraceId) -> Self {
        Self(log.map(|log| (log.clone(), turn.clone())))
    }

    /// As [`StepLog::take`].
    pub(crate) fn take(&self, step: Step) {
        if let Some((log, turn)) = &self.0 {
            log.take(turn, step);
        }
    }
}
