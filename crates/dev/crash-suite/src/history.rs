//! The history of a round: every external event, one JSON line each, in the order seen.
//!
//! Decision: a line is written as soon as its event is seen, so that the file of a round that the
//! suite did not survive is still worth reading. What the fakes only tell when they are asked (what
//! was sent, what was acknowledged) is asked after every kill and belongs to the life before it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::SuiteError;
use crate::system::Step;

/// Something that happened outside the program, or to it.
///
/// A *life* is what lies between a start and a kill, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The round began.
    Round {
        /// The seed of the run.
        seed: u64,
        /// The number of the round.
        round: u64,
    },
    /// Turns were measured: a kill falls within this time after a message.
    Span {
        /// In microseconds.
        micros: u64,
    },
    /// Processes were started on the home, and these became its owner.
    Started {
        /// The life.
        life: u32,
        /// How many were started.
        racers: usize,
        /// The process ids of those that said they own the home. Empty when the start was not awaited.
        owners: Vec<u32>,
    },
    /// A process ended by itself at its start.
    Refused {
        /// The life.
        life: u32,
        /// Its exit code.
        code: Option<i32>,
        /// Whether it named the process that owns the home.
        names_owner: bool,
        /// What it said.
        said: String,
    },
    /// A person sent a message.
    Pushed {
        /// The life.
        life: u32,
        /// The marker in it.
        marker: String,
        /// The chat.
        chat: i64,
        /// The number of the platform's update.
        update: i64,
        /// The text.
        text: String,
    },
    /// The program asked the model.
    Asked {
        /// The life.
        life: u32,
        /// The chat it is about.
        chat: i64,
        /// The body, byte for byte.
        body: String,
    },
    /// A vendor would have refused a request.
    Violation {
        /// The life.
        life: u32,
        /// Why.
        what: String,
    },
    /// The process was killed.
    Killed {
        /// The life.
        life: u32,
        /// How long after the message, or after the start, in microseconds.
        micros: u64,
    },
    /// Updates below this were acknowledged when the life ended.
    Acknowledged {
        /// The life.
        life: u32,
        /// The offset.
        offset: i64,
    },
    /// The platform had this message from the program when the life ended, and not before it.
    Sent {
        /// The life.
        life: u32,
        /// The chat.
        chat: i64,
        /// The text.
        text: String,
    },
    /// A line that a tool appended was there when the life ended, and not before it.
    Effect {
        /// The life.
        life: u32,
        /// The line.
        token: String,
    },
    /// What was on disk when the life ended was saved.
    Checkpoint {
        /// The life.
        life: u32,
        /// The folder, beside the history.
        folder: String,
    },
    /// A copy of the home of this life went on by itself.
    Forked {
        /// The life whose end was copied.
        life: u32,
        /// What came of the copies.
        copies: Vec<Continuation>,
    },
    /// The program did not come to rest in time.
    Stuck {
        /// The life.
        life: u32,
        /// What was left.
        what: String,
    },
}

/// What a copy of a home did until it came to rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// Bodies of the requests to the model, by chat. Keys are texts, because JSON has no others.
    pub asked: BTreeMap<String, Vec<String>>,
    /// The messages sent, by chat.
    pub sent: BTreeMap<String, Vec<String>>,
    /// The sessions at the end, by file name.
    pub sessions: BTreeMap<String, Vec<Step>>,
    /// All lines appended by tools.
    pub effects: Vec<String>,
    /// Why it never came to rest.
    pub stuck: Option<String>,
}

/// Writes a history.
#[derive(Debug)]
pub(crate) struct History {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    life: u32,
    /// The first write that failed.
    fault: Option<io::Error>,
}

impl History {
    pub(crate) fn create(path: &Path) -> Result<Self, SuiteError> {
        let file = File::create(path).map_err(SuiteError::file("create", path))?;
        Ok(Self {
            inner: Mutex::new(Inner {
                file,
                life: 0,
                fault: None,
            }),
        })
    }

    /// Sets the life that events of the fakes belong to.
    pub(crate) fn enter(&self, life: u32) {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .life = life;
    }

    /// Adds the event that `make` makes of the current life.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> Event) {
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

    /// Whether everything is in the file.
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
/// [`SuiteError::File`], [`SuiteError::Line`].
pub fn read_history(path: &Path) -> Result<Vec<Event>, SuiteError> {
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
