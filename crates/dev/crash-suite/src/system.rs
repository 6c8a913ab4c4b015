//! The program under test, as the suite sees it.
//!
//! Decision: a driver says how the program is configured, started and recognised as ready, and
//! reads what it has on disk into a small vocabulary that the checker understands. Starting and
//! killing is the same for every program: a process, SIGKILL.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use async_trait::async_trait;
use nanobot_testkit::ScriptedCall;
use serde::{Deserialize, Serialize};

use crate::SuiteError;

/// Where the program finds the world outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The server of the Telegram Bot API, without a final slash.
    pub telegram: String,
    /// The bot's token.
    pub token: String,
    /// An OpenAI-compatible server, with `/v1`.
    pub model: String,
}

/// What the scripted model asks the program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed<'a> {
    /// Read something that never changes.
    Look,
    /// Read a web page, whose content never changes and is HTML.
    Fetch {
        /// Its address, which is of this machine.
        page: &'a str,
    },
    /// Write a file named after the token whose content is the token; doing it again changes nothing.
    Put,
    /// Append the token as a line of its own to a file: doing it twice shows.
    Append,
    /// Send this text to a chat.
    Tell {
        /// The chat.
        chat: i64,
        /// The text.
        text: &'a str,
    },
}

/// One recorded step of a session, in order of recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A person said this.
    Said(String),
    /// The model called tools; the ids of its calls.
    Called(Vec<String>),
    /// A call has its result.
    Returned {
        /// The call's id.
        call: String,
        /// What the model reads.
        text: String,
    },
    /// The model said this and called nothing.
    Answered(String),
    /// A turn ended that had taken in these messages.
    Ended(Vec<String>),
}

/// A session as it is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionLog {
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// What they say.
    pub steps: Vec<Step>,
    /// Why it cannot be read, or why no valid request can be made of it.
    pub problem: Option<String>,
}

/// Where a message stands in the program's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Waiting.
    Open,
    /// A send was begun and has not ended.
    Sending,
    /// Answered, or sent.
    Done,
    /// Nobody knows whether it was sent.
    Uncertain,
    /// Given up, with a reason.
    Failed,
}

/// An entry of the program's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Whether it came from a person.
    pub inbound: bool,
    /// What makes it the same message after a restart.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Where it stands.
    pub standing: Standing,
}

/// Everything durable at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The sessions by file name.
    pub sessions: BTreeMap<String, SessionLog>,
    /// The ledger.
    pub ledger: Vec<Row>,
    /// What is wrong with it beyond a single session.
    pub problem: Option<String>,
}

/// A program that answers Telegram messages with a model's help.
#[async_trait]
pub trait System: Send + Sync + fmt::Debug {
    /// Makes `home` ready for a start: configuration, and the file that [`Deed::Look`] reads.
    /// Called again for a home that was used, to point it to other endpoints.
    ///
    /// # Errors
    /// [`SuiteError::File`].
    fn prepare(&self, home: &Path, endpoints: &Endpoints) -> Result<(), SuiteError>;

    /// How the program is started on a home.
    fn command(&self, home: &Path) -> Command;

    /// Whether this line of its standard output says that it owns the home and runs.
    fn is_ready(&self, line: &str) -> bool;

    /// Whether standard error of a process that ended says that the process `owner` has the home.
    fn names_owner(&self, stderr: &str, owner: u32) -> bool;

    /// The tool call that does a deed. `token` is unique.
    fn call(&self, deed: Deed<'_>, token: &str) -> ScriptedCall;

    /// Whether the result of a call says that nobody knows whether it ran.
    fn is_unknown_outcome(&self, result: &str) -> bool;

    /// Whether the result of [`Deed::Append`] says that it was done.
    fn is_success(&self, result: &str) -> bool;

    /// The lines that [`Deed::Append`] has written, in order.
    fn effects(&self, home: &Path) -> Vec<String>;

    /// Copies what is durable to an empty folder, from a home that nobody runs on.
    ///
    /// # Errors
    /// [`SuiteError::File`].
    fn save(&self, home: &Path, into: &Path) -> Result<(), SuiteError>;

    /// Reads a folder that [`System::save`] made. What is wrong with it is in the checkpoint.
    async fn load(&self, saved: &Path) -> Checkpoint;

    /// The ledger of a home, also while the program runs on it; empty when it cannot be read now.
    fn ledger(&self, home: &Path) -> Vec<Row>;
}
