//! The one error of this crate: what a test harness could not do.

use std::io;
use std::time::Duration;

/// Why a helper gave up. Tests unwrap it; its text says what was missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestkitError {
    /// No listener could be opened on loopback.
    #[error("cannot listen on a loopback port")]
    Listen(#[source] io::Error),

    /// A server of this crate could not be talked to.
    #[error("cannot talk to a server on loopback")]
    Unreachable(#[source] io::Error),

    /// Something a test waits for did not happen in time.
    #[error("waited {limit:?} in vain for {what}")]
    TimedOut {
        /// What was waited for, in words.
        what: String,
        /// How long.
        limit: Duration,
    },

    /// There is no corpus of that name.
    #[error("no corpus is called {name:?}")]
    UnknownCorpus {
        /// The name asked for.
        name: String,
    },

    /// A row of a corpus is not what its README says.
    #[error("corpus row {id}: {problem}")]
    Corpus {
        /// The row's `id`, or its line number when it has none.
        id: String,
        /// What is wrong with it.
        problem: String,
    },

    /// The memory of a piece of work could not be measured.
    #[error("measuring {test}: {why}")]
    Measuring {
        /// The test whose work it is.
        test: String,
        /// What went wrong.
        why: String,
    },

    /// The WebSocket peer refused, failed or left.
    #[error("websocket: {what}")]
    WebSocket {
        /// What was being done.
        what: &'static str,
        /// The transport's own error; `None` when the peer closed in good order.
        source: Option<Box<tokio_tungstenite::tungstenite::Error>>,
    },
}
