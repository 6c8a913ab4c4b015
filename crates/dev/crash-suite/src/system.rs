//! The interface to the program under test.
//!
//! Decision: a driver defines how the program is configured, started and recognized as ready, and
//! converts its state on disk to a small vocabulary for the checker. Starting and killing is the
//! same for every program: a process, SIGKILL.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use async_trait::async_trait;
use nanobot_testkit::ScriptedCall;
use serde::{Deserialize, Serialize};

use crate::SuiteError;

/// Addresses of the fakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The server of the Telegram Bot API, without a final slash.
    pub telegram: String,
    /// The bot's token.
    pub token: String,
    /// An OpenAI-compatible server, with `/v1`.
    pub model: String,
}

/// An action that the scripted model asks the program to perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolAction<'a> {
    /// Read a file that never changes.
    Look,
    /// Read an HTML page, whose content never changes.
    Fetch {
        /// URL of the page, which is on this machine.
        page: &'a str,
    },
    /// Write a file named after the token, with the token as its content. Idempotent.
    Put,
    /// Append the token as a line to a file. Doing it twice is visible.
    Append,
    /// Send a text to a chat.
    Tell {
        /// The chat.
        chat: i64,
        /// The text.
        text: &'a str,
    },
}

/// One recorded step of a session, in the order of recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemStep {
    /// A user's message.
    Said(String),
    /// The model called tools with these call ids.
    Called(Vec<String>),
    /// A call returned its result.
    Returned {
        /// The call's id.
        call: String,
        /// Text of the result, as the model reads it.
        text: String,
    },
    /// The model replied with this text and called nothing.
    Answered(String),
    /// A turn that processed these messages ended.
    Ended(Vec<String>),
}

/// A session as it is stored on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionLog {
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// The parsed steps.
    pub steps: Vec<SystemStep>,
    /// Reason why it cannot be read, or why no valid request can be built from it.
    pub problem: Option<String>,
}

/// State of a message in the program's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerState {
    /// Waiting.
    Open,
    /// A send began and has not ended.
    Sending,
    /// Answered, or sent.
    Done,
    /// It is unknown whether it was sent.
    Uncertain,
    /// Given up, with a reason.
    Failed,
}

/// An entry of the program's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRow {
    /// `true` if it came from a user.
    pub inbound: bool,
    /// Id that identifies the message across restarts.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its state.
    pub standing: LedgerState,
}

/// All durable state at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The sessions by file name.
    pub sessions: BTreeMap<String, SessionLog>,
    /// The ledger.
    pub ledger: Vec<StateRow>,
    /// Problem with the state that is not specific to one session.
    pub problem: Option<String>,
}

/// A program that answers Telegram messages with a model's help.
#[async_trait]
pub trait System: Send + Sync + fmt::Debug {
    /// Prepares `home` for a start: configuration, and the file that [`ToolAction::Look`] reads.
    /// Called again for a used home, to change the endpoints.
    ///
    /// # Errors
    /// Returns [`SuiteError::File`].
    fn prepare(&self, home: &Path, endpoints: &Endpoints) -> Result<(), SuiteError>;

    /// Returns the command that starts the program on a home.
    fn command(&self, home: &Path) -> Command;

    /// Returns `true` if this line of standard output reports that the program owns the home and
    /// runs.
    fn is_ready(&self, line: &str) -> bool;

    /// Returns `true` if the standard error of an exited process names `owner` as the owner of the
    /// home.
    fn names_owner(&self, stderr: &str, owner: u32) -> bool;

    /// Returns the tool call that performs a deed. `token` is unique.
    fn call(&self, deed: ToolAction<'_>, token: &str) -> ScriptedCall;

    /// Returns `true` if the result of a call says that it is unknown whether the call ran.
    fn is_unknown_outcome(&self, result: &str) -> bool;

    /// Returns `true` if the result of [`ToolAction::Append`] reports success.
    fn is_success(&self, result: &str) -> bool;

    /// Returns the lines that [`ToolAction::Append`] has written, in order.
    fn effects(&self, home: &Path) -> Vec<String>;

    /// Copies the durable state of a home, on which no process runs, to an empty folder.
    ///
    /// # Errors
    /// Returns [`SuiteError::File`].
    fn save(&self, home: &Path, into: &Path) -> Result<(), SuiteError>;

    /// Reads a folder written by [`System::save`]. Problems are recorded in the checkpoint.
    async fn load(&self, saved: &Path) -> Checkpoint;

    /// Returns the ledger of a home, also while the program runs on it; empty if it cannot be read
    /// at the moment.
    fn ledger(&self, home: &Path) -> Vec<StateRow>;
}
