//! What can go wrong with a platform, and what to do about it.

use std::time::Duration;

/// An error of a channel. Texts never contain tokens: scrub URLs before putting them here.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The configuration cannot work.
    #[error("{key}: {message}")]
    Config {
        /// The key below the channel's section.
        key: String,
        /// What is wrong and what to write instead.
        message: String,
    },
    /// The platform does not accept the credentials.
    #[error("the platform refuses the credentials: {0}")]
    Auth(String),
    /// Somebody else receives with the same credentials, and the platform serves one at a time.
    #[error("somebody else receives with these credentials: {0}")]
    Conflict(String),
    /// Too many requests.
    #[error("rate limited for {} ms", retry_after.as_millis())]
    RateLimited {
        /// How long to wait.
        retry_after: Duration,
    },
    /// The chat or message is not there, or the bot may not write to it.
    #[error("cannot deliver there: {0}")]
    NotFound(String),
    /// The part is larger than the platform takes.
    #[error("too large for the platform: {0}")]
    TooLarge(String),
    /// The platform will never accept this.
    #[error("the platform refuses: {0}")]
    Refused(String),
    /// The platform could not be reached or failed, and has surely not taken the part.
    #[error("the platform cannot be reached: {0}")]
    Unavailable(String),
    /// The chat is one of clients that come and go, and none is there; nobody has the part.
    #[error("nobody is there to take it: {0}")]
    Away(String),
    /// The connection broke after the part was on its way: the platform may have it or not.
    #[error("unknown whether the platform took it: {0}")]
    Ambiguous(String),
}

/// What follows a failed send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRecovery {
    /// Try again, after this long where the platform named a time.
    Retry {
        /// The pause the platform asked for.
        after: Option<Duration>,
    },
    /// Trying again may send it twice: policy decides.
    Uncertain,
    /// It will never work.
    GiveUp,
}

impl ChannelError {
    /// What to do about a failed send.
    #[must_use]
    pub fn recovery(&self) -> SendRecovery {
        match self {
            Self::RateLimited { retry_after } => SendRecovery::Retry {
                after: Some(*retry_after),
            },
            Self::Unavailable(_) | Self::Away(_) | Self::Conflict(_) => {
                SendRecovery::Retry { after: None }
            }
            Self::Ambiguous(_) => SendRecovery::Uncertain,
            Self::Config { .. }
            | Self::Auth(_)
            | Self::NotFound(_)
            | Self::TooLarge(_)
            | Self::Refused(_) => SendRecovery::GiveUp,
        }
    }

    /// Whether starting the channel again cannot help until somebody changes the configuration, or
    /// something at the platform. It is tried again rarely.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Config { .. } | Self::Auth(_))
    }
}
