//! The error type of this crate.

use std::io;
use std::time::Duration;

/// Reason why a helper failed. Tests unwrap it, so its text has to describe the failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestkitError {
    /// No listener could be opened on loopback.
    #[error("cannot listen on a loopback port")]
    Listen(#[source] io::Error),

    /// A connection to a server of this crate failed.
    #[error("cannot talk to a server on loopback")]
    Unreachable(#[source] io::Error),

    /// An event that a test waits for did not happen in time.
    #[error("waited {limit:?} in vain for {what}")]
    TimedOut {
        /// Description of the awaited event.
        what: String,
        /// Time limit of the wait.
        limit: Duration,
    },

    /// There is no corpus of that name.
    #[error("no corpus is called {name:?}")]
    UnknownCorpus {
        /// The name asked for.
        name: String,
    },

    /// A row of a corpus does not have the format that its README defines.
    #[error("corpus row {id}: {problem}")]
    Corpus {
        /// The row's `id`, or its line number if it has none.
        id: String,
        /// Description of the problem.
        problem: String,
    },

    /// The memory use of a piece of work could not be measured.
    #[error("measuring {test}: {why}")]
    Measuring {
        /// Name of the test that was measured.
        test: String,
        /// Description of the failure.
        why: String,
    },

    /// The WebSocket peer refused, failed or left.
    #[error("websocket: {what}")]
    WebSocket {
        /// The operation that failed.
        what: &'static str,
        /// The transport's own error; `None` if the peer closed cleanly.
        source: Option<Box<tokio_tungstenite::tungstenite::Error>>,
    },
}
