//! Notices to a person about problems with their memory.

use async_trait::async_trait;
use nanobot_types::{NoticeKind, OutboundKey};

/// Sends notices to the person of a session.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Sends a notice. The caller sends it once and does not keep it, so the implementation should
    /// make it durable. Two notices of a session have the same kind only if they say the same.
    async fn notify(&self, kind: NoticeKind, notice: String);

    /// Asks a question. Unless the result is [`QuestionOutcome::Durable`], it is asked again later.
    async fn ask(&self, question: BacklogQuestion) -> QuestionOutcome;
}

/// The question whether messages that wait are to be summarised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacklogQuestion {
    /// The text for the person.
    pub text: String,
    /// The key under which it is stored. It stays the same until the question is recorded as asked,
    /// also after a crash, so that a question which is stored already is not sent again.
    pub key: OutboundKey,
}

/// The fate of a question to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionOutcome {
    /// It is stored and reaches the person, also after a crash.
    Durable,
    /// It is shown if the person is watching.
    Offered,
    /// It is shown nowhere.
    Dropped,
}

/// Discards notices; the problems are in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNotifier;

#[async_trait]
impl Notifier for NoNotifier {
    async fn notify(&self, _: NoticeKind, _: String) {}

    async fn ask(&self, _: BacklogQuestion) -> QuestionOutcome {
        QuestionOutcome::Dropped
    }
}

/// A problem with a person's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemoryProblem {
    /// The model failed repeatedly, with this reason.
    Raw(String),
    /// A rewrite of the facts would have lost most of them.
    Loses,
    /// Others changed the facts at the same time.
    Changed,
    /// The facts are too long to be rewritten.
    TooLong,
}

impl std::fmt::Display for MemoryProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Raw(why) => write!(
                f,
                "I could not summarise the older part of our conversation ({why}). It is kept as it was said in \
                 memory/HISTORY.md."
            ),
            Self::Loses => f.write_str(
                "A new version of memory/MEMORY.md would have lost more than half of it, so I kept the old one. What \
                 we talked about is in memory/HISTORY.md.",
            ),
            Self::Changed => f.write_str(
                "memory/MEMORY.md was changed by someone else while I summarised our conversation, so I left it as it \
                 is. What we talked about is in memory/HISTORY.md.",
            ),
            Self::TooLong => f.write_str(
                "memory/MEMORY.md is too long for me to keep it up to date by myself; please shorten it. What we \
                 talked about is in memory/HISTORY.md.",
            ),
        }
    }
}
