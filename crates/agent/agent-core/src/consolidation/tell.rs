//! Tells a person that something about their memory is not well.

use async_trait::async_trait;

/// Brings a notice to the person of a session.
#[async_trait]
pub trait Teller: Send + Sync {
    /// Tells them. A notice is told once and not kept by the caller, so it should be durable.
    async fn tell(&self, notice: String);
}

/// Tells nobody; what would have been told is in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untold;

#[async_trait]
impl Teller for Untold {
    async fn tell(&self, _: String) {}
}

/// What is not well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The model failed again and again; why.
    Raw(String),
    /// A rewrite of the facts would have lost most of them.
    Loses,
    /// The facts were changed by somebody else at the same time.
    Changed,
    /// The facts are too long to be rewritten.
    TooLong,
}

impl std::fmt::Display for Trouble {
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
                "memory/MEMORY.md was changed by somebody else while I summarised our conversation, so I left it as it \
                 is. What we talked about is in memory/HISTORY.md.",
            ),
            Self::TooLong => f.write_str(
                "memory/MEMORY.md is too long for me to keep it up to date by myself; please shorten it. What we \
                 talked about is in memory/HISTORY.md.",
            ),
        }
    }
}
