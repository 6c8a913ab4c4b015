//! Truncated replies: the notes that say so, and the mark in the log.

use nanobot_types::FinishReason;

/// Appended to a reply that reached the token limit.
const CUT_NOTE: &str =
    "[The reply was cut at the token limit. Ask me to go on, or raise agents.defaults.maxTokens.]";
/// Appended to a reply of a model that did not stop.
const RUNAWAY_NOTE: &str = "[The model did not stop, so its answer was cut here. Ask for less at a time, or try \
     another model; agents.defaults.maxTokens decides how much is read.]";
/// Key in the log that marks a truncated message, with the value `length` or `runaway`.
pub const CUT_KEY: &str = "_finish";

/// The reason why a reply was truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// The model reached its token limit.
    Length,
    /// The model was cut off because it did not stop.
    Runaway,
}

impl Truncation {
    pub(super) fn of(reason: &FinishReason) -> Option<Self> {
        match reason {
            FinishReason::Length => Some(Self::Length),
            FinishReason::Runaway => Some(Self::Runaway),
            _ => None,
        }
    }

    /// Recognises the truncation note at the end of a reply.
    #[must_use]
    pub fn of_reply(reply: &str) -> Option<Self> {
        [Self::Length, Self::Runaway]
            .into_iter()
            .find(|cut| reply.ends_with(cut.note()))
    }

    /// Reads the value of [`CUT_KEY`] in a stored message.
    #[must_use]
    pub fn of_stored(value: &serde_json::Value) -> Self {
        if value.as_str() == Some(Self::Runaway.name()) {
            Self::Runaway
        } else {
            Self::Length
        }
    }

    /// Returns the finish reason that was recorded.
    #[must_use]
    pub fn reason(self) -> FinishReason {
        match self {
            Self::Length => FinishReason::Length,
            Self::Runaway => FinishReason::Runaway,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Runaway => "runaway",
        }
    }

    pub(super) fn note(self) -> &'static str {
        match self {
            Self::Length => CUT_NOTE,
            Self::Runaway => RUNAWAY_NOTE,
        }
    }
}
