//! Evidence of which turn crashed the process.
//!
//! Decision: every step of a turn is noted in a file before it is taken, with one small write and
//! no sync, because the operating system keeps written data when a process dies. The next start
//! reads the notes ([`verdict`]). An attempt is counted against the turn whose step was under way.
//! If the notes name several turns, none is blamed yet; these suspects then run one at a time until
//! each has ended or the process dies while only one of them runs. Turns that only waited for a
//! model continue at once, unless they were under way in two crashes in a row.
//!
//! After a power failure, notes that never reached the disk are missing, and no attempt is counted.
//! An orderly shutdown leaves no notes.

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
pub enum TurnStep {
    /// Its session is being read, or a command runs.
    Opening,
    /// A model was called and has not finished its answer. Nearly all of this is waiting.
    Model,
    /// An answer of the model is being read.
    Answer,
    /// Tools are running.
    Tools,
}

/// Suspicion against a turn that was under way when a process died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Suspicion {
    /// `true` if it must not run at the same time as another suspect.
    suspect: bool,
    /// `true` if the ledger has yet to count an attempt of it.
    owed: bool,
    /// Number of consecutive crashes during which it was under way.
    seen: u32,
}

/// Notes of the steps under way, and the suspicions from the previous process. There is one per
/// ledger: two processes must not share a file.
#[derive(Debug)]
pub struct StepLog {
    notes: Mutex<Notes>,
    /// Held by the one suspect that may run.
    suspects: Arc<Semaphore>,
}

#[derive(Debug)]
struct Notes {
    file: NoteFile,
    under_way: BTreeMap<TraceId, TurnStep>,
    suspicions: BTreeMap<TraceId, Suspicion>,
}

impl StepLog {
    /// Reads the notes of the previous process from `path` and starts a new file there. A file that
    /// cannot be read is no evidence. If the file cannot be written, this is logged once, and
    /// attempts are counted when a turn begins.
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

    /// Returns the permit that a suspect holds while it runs. Other work that may have ended the
    /// previous process, such as parsing a message, must hold it too, so that neither is blamed for
    /// the other.
    #[must_use]
    pub fn suspects(&self) -> Arc<Semaphore> {
        Arc::clone(&self.suspects)
    }

    /// Returns `true` while notes reach the file.
    pub(crate) fn is_written(&self) -> bool {
        self.notes().file.is_written()
    }

    /// Notes that a turn takes a step.
    pub(crate) fn step(&self, turn: &TraceId, step: TurnStep) {
        let mut notes = self.notes();
        if notes.under_way.get(turn) != Some(&step) {
            notes.under_way.insert(turn.clone(), step);
            notes.write(turn, &file::EvidenceLine::step(turn, step));
        }
    }

    /// Notes that a turn, or an attempt of it, is over, and clears its suspicion.
    pub(crate) fn ended(&self, turn: &TraceId) {
        let mut notes = self.notes();
        let was_under_way = notes.under_way.remove(turn).is_some();
        let was_suspect = notes.suspicions.remove(turn).is_some();
        if was_under_way || was_suspect {
            notes.write(turn, &file::EvidenceLine::ended(turn));
        }
    }

    /// Returns `true` if the ledger has yet to count an attempt of this turn.
    pub(crate) fn is_uncounted(&self, turn: &TraceId) -> bool {
        self.notes()
            .suspicions
            .get(turn)
            .is_some_and(|suspicion| suspicion.owed)
    }

    /// Notes that the ledger counted that attempt.
    pub(crate) fn mark_counted(&self, turn: &TraceId) {
        let mut notes = self.notes();
        let Some(suspicion) = notes.suspicions.get_mut(turn) else {
            return;
        };
        suspicion.owed = false;
        let suspicion = *suspicion;
        notes.write(turn, &file::EvidenceLine::suspicion(turn, suspicion));
    }

    /// Waits until no other suspect runs, if this turn is a suspect. Cancel-safe.
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

    /// Clears all notes, for an orderly shutdown.
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
    fn write(&mut self, turn: &TraceId, note: &file::EvidenceLine) {
        if self.file.append(note).is_err() {
            tracing::warn!(%turn, "could not write step notes; attempts are counted when turns begin");
        }
        if self.file.is_long() {
            self.rewrite();
        }
    }

    fn rewrite(&mut self) {
        self.file.replace(&self.under_way, &self.suspicions);
    }
}

/// The step notes of one turn; empty if no notes are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnSteps(Option<(Arc<StepLog>, TraceId)>);

impl TurnSteps {
    /// Creates the notes of `turn` in `log`.
    pub(crate) fn of(log: Option<&Arc<StepLog>>, turn: &TraceId) -> Self {
        Self(log.map(|log| (log.clone(), turn.clone())))
    }

    /// Notes a step as [`StepLog::step`] does.
    pub(crate) fn step(&self, step: TurnStep) {
        if let Some((log, turn)) = &self.0 {
            log.step(turn, step);
        }
    }
}
