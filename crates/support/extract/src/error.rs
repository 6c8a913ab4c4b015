//! Reasons why a document has no text.

use std::io;

/// A document that was not read.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The program did not call [`enter`](crate::enter), so that starting it once more would not start a helper.
    #[error("this program has no reader: its main does not call nanobot_extract::enter")]
    NotSetUp,
    /// The helper could not be started.
    #[error("the reader could not be started")]
    Start(#[source] io::Error),
    /// The document is larger than the helper takes.
    #[error("{bytes} bytes are more than the {limit} that are read")]
    TooLarge {
        /// Size of the document.
        bytes: usize,
        /// Largest size that is read.
        limit: usize,
    },
    /// The helper reached its limit on memory or on the stack.
    #[error("the reader ran out of memory or stack")]
    OutOfMemory,
    /// The helper reached its limit on processor time.
    #[error("the reader ran out of time")]
    OutOfTime,
    /// No answer came in time, though the helper did not use up its processor time.
    #[error("the reader did not answer in time")]
    TimedOut,
    /// The parser failed in a way that it should not.
    #[error("the reader broke over it")]
    Broken,
    /// The answer is larger than the document can account for.
    #[error("the reader found more than fits into an answer")]
    TooMuch,
    /// The answer makes no sense.
    #[error("the reader gave an answer that makes no sense")]
    Garbled,
    /// Something other than its limits ended the helper.
    #[error("the reader was ended ({0})")]
    Ended(String),
    /// The document is not of a kind that has text.
    #[error("{0}")]
    Unreadable(String),
}

impl ExtractError {
    /// `true` if the document is the cause, so that it would fail again.
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
            Self::NotSetUp | Self::Start(_) | Self::TimedOut | Self::Ended(_) => false,
        }
    }
}
