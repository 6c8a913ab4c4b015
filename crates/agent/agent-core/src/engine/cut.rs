//! Replies that end before their end: the notes that say so, and the mark in the record.

use nanobot_types::FinishReason;

/// Put after a reply that the model could not finish.
const CUT_NOTE: &str =
    "[The reply was cut at the token limit. Ask me to go on, or raise agents.defaults.maxTokens.]";
/// Put after a reply of a model that did not stop.
const RUNAWAY_NOTE: &str = "[The model did not stop, so its answer was cut here. Ask for less at a time, or try \
     another model; agents.defaults.maxTokens decides how much is read.]";
/// Marks a stored message that was cut: `length` or `runaway`.
pub(crate) const CUT_KEY: &str = "_finish";

/// Why a reply ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The model reached its token limit.
    Length,
    /// The model was cut off because it did not stop.
    Runaway,
}

impl Cut {
    pub(super) fn of(reason: &FinishReason) -> Option<Self> {
        match reason {
            FinishReason::Length => Some(Self::Length),
            FinishReason::Runaway => Some(Self::Runaway),
            _ => None,
        }
    }

    /// The cut of a reply that ends with its note.
    pub(crate) fn of_reply(reply: &str) -> Option<Self> {
        [Self::Length, Self::Runaway]
            .into_iter()
            .find(|cut| reply.ends_with(cut.note()))
    }

    /// The cut of a stored message that has [`CUT_KEY`].
    pub(crate) fn of_stored(value: &serde_json::Value) -> Self {
        if value.as_str() == Some(Self::Runaway.name()) {
            Self::Runaway
        } else {
            Self::Length
        }
    }

    pub(crate) fn reason(self) -> FinishReason {
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
