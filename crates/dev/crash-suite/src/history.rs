//! The history of a round: every external event as one JSON line, in the order observed.
//!
//! Decision: a line is written as soon as its event is observed, so that the history is useful even
//! if the suite crashes during the round. Facts that the fakes only report on request (messages
//! sent, updates acknowledged) are queried after every kill and belong to the life before it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::SuiteError;
use crate::system::SystemStep;

/// An event outside the program, or one that happened to it.
///
/// A *life* is the time between a start and a kill, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum HistoryEvent {
    /// The round began.
    Round {
        /// The seed of the run.
        seed: u64,
        /// The number of the round.
        round: u64,
    },
    /// Turns were measured. A kill comes within this time after a message.
    Span {
        /// In microseconds.
        micros: u64,
    },
    /// Processes were started on the home. `owners` are those that got it.
    Started {
        /// The life.
        life: u32,
        /// Number of processes started.
        racers: usize,
        /// Process ids of those that reported owning the home. Empty if the suite did not wait for
        /// the start.
        owners: Vec<u32>,
    },
    /// A process exited by itself at its start.
    Refused {
        /// The life.
        life: u32,
        /// Its exit code.
        code: Option<i32>,
        /// `true` if it named the process that owns the home.
        names_owner: bool,
        /// Its standard error.
        said: String,
    },
    /// A user sent a message.
    Pushed {
        /// The life.
        life: u32,
        /// Marker of the message.
        marker: String,
        /// The chat.
        chat: i64,
        /// Id of the platform's update.
        update: i64,
        /// The text.
        text: String,
    },
    /// The program sent a request to the model.
    Asked {
        /// The life.
        life: u32,
        /// Chat of the request.
        chat: i64,
        /// Body of the request, byte for byte.
        body: String,
    },
    /// A real model vendor would have refused a request.
    Violation {
        /// The life.
        life: u32,
        /// Reason for the refusal.
        what: String,
    },
    /// The process was killed.
    Killed {
        /// The life.
        life: u32,
        /// Time since the message or the start, in microseconds.
        micros: u64,
    },
    /// Updates below this offset had been acknowledged at the end of the life.
    Acknowledged {
        /// The life.
        life: u32,
        /// The offset.
        offset: i64,
    },
    /// The platform received this message from the program during the life.
    Sent {
        /// The life.
        life: u32,
        /// The chat.
        chat: i64,
        /// The text.
        text: String,
    },
    /// A tool appended this line during the life.
    Effect {
        /// The life.
        life: u32,
        /// The line.
        token: String,
    },
    /// The state on disk at the end of the life was saved.
    Checkpoint {
        /// The life.
        life: u32,
        /// Its folder, next to the history.
        folder: String,
    },
    /// Copies of the home of this life were continued separately.
    Forked {
        /// The life whose end was copied.
        life: u32,
        /// Results of the copies.
        copies: Vec<Continuation>,
    },
    /// The program did not finish its work in time.
    Stuck {
        /// The life.
        life: u32,
        /// Description of the unfinished work.
        what: String,
    },
}

/// Everything that a copy of a home did until its work was finished.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// Bodies of the requests to the model, by chat. Keys are strings because JSON has no others.
    pub asked: BTreeMap<String, Vec<String>>,
    /// The messages sent, by chat.
    pub sent: BTreeMap<String, Vec<String>>,
    /// The sessions at the end, by file name.
    pub sessions: BTreeMap<String, Vec<SystemStep>>,
    /// All lines appended by tools.
    pub effects: Vec<String>,
    /// Reason why the work was never finished.
    pub stuck: Option<String>,
}

/// Writes a history.
#[derive(Debug)]
pub(crate) struct History {
    inner: Mutex<HistoryState>,
}

#[derive(Debug)]
struct HistoryState {
    file: File,
    life: u32,
    /// The first write that failed.
    fault: Option<io::Error>,
}

impl History {
    pub(crate) fn create(path: &Path) -> Result<Self, SuiteError> {
        let file = File::create(path).map_err(SuiteError::file("create", path))?;
        Ok(Self {
            inner: Mutex::new(HistoryState {
                file,
                life: 0,
                fault: None,
            }),
        })
    }

    /// Sets the life to which events of the fakes belong.
    pub(crate) fn enter(&self, life: u32) {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .life = life;
    }

    /// Appends the event that `make` creates for the current life.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> HistoryEvent) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let event = make(inner.life);
        let written = serde_json::to_vec(&event)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                inner.file.write_all(&line)
            });
        if let Err(error) = written {
            inner.fault.get_or_insert(error);
        }
    }

    /// Returns the first write error, if any.
    pub(crate) fn finish(&self, path: &Path) -> Result<(), SuiteError> {
        let fault = self
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fault
            .take();
        fault.map_or(Ok(()), |error| Err(SuiteError::file("write", path)(error)))
    }
}

/// Reads a history file.
///
/// # Errors
/// Returns [`SuiteError::File`] or [`SuiteError::Line`].
pub fn read_history(path: &Path) -> Result<Vec<HistoryEvent>, SuiteError> {
    read_lines(path)
}

/// Reads a file of JSON lines.
pub(crate) fn read_lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>, SuiteError> {
    let text = fs::read_to_string(path).map_err(SuiteError::file("read", path))?;
    let lines = (1..).zip(text.lines());
    lines
        .map(|(line, text)| {
            serde_json::from_str(text).map_err(|source| SuiteError::Line {
                path: PathBuf::from(path),
                line,
                source,
            })
        })
        .collect()
}
