//! Reasons why a document could not be read.

use std::io;

use crate::PROGRAM;

/// Error of reading a document.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The program that reads documents is not installed.
    #[error(
        "pages, mails and PDF are read by the program {PROGRAM}, which is not there: install it in \
         the folder of this program"
    )]
    NotInstalled,
    /// The helper could not be started.
    #[error("the reader could not be started")]
    Start(#[source] io::Error),
    /// The document is larger than the helper accepts.
    #[error("{bytes} bytes are more than the {limit} that are read")]
    TooLarge {
        /// Size of the document.
        bytes: usize,
        /// Maximum size that is accepted.
        limit: usize,
    },
    /// The helper reached its limit on memory or on the stack.
    #[error("the reader ran out of memory or stack")]
    OutOfMemory,
    /// The helper reached its limit on CPU time.
    #[error("the reader ran out of time")]
    OutOfTime,
    /// No response came in time, although the helper did not use up its CPU time.
    #[error("the reader did not answer in time")]
    TimedOut,
    /// The parser panicked or crashed.
    #[error("the reader broke over it")]
    Broken,
    /// The response is larger than the document can account for.
    #[error("the reader found more than fits into an answer")]
    TooMuch,
    /// The response is malformed.
    #[error("the reader gave an answer that makes no sense")]
    Garbled,
    /// The helper ended for a reason other than its limits.
    #[error("the reader was ended ({0})")]
    Ended(String),
    /// The document is of a kind that has no text.
    #[error("{0}")]
    Unreadable(String),
}

impl ExtractError {
    /// Returns `true` if the document is the cause, so that a retry would fail again.
    #[must_use]
    pub const fn blames_input(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::OutOfMemory
            | Self::OutOfTime
            | Self::Broken
            | Self::TooMuch
            | Self::Garbled
            | Self::Unreadable(_) => true,
            Self::NotInstalled | Self::Start(_) | Self::TimedOut | Self::Ended(_) => false,
        }
    }
}
