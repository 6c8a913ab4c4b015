//! Errors of a platform, and how to recover from them.

use std::time::Duration;

/// An error of a channel. The texts must never contain tokens: redact URLs before putting them
/// here.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The configuration is invalid.
    #[error("{key}{}{message}", if .key.is_empty() { "" } else { ": " })]
    Config {
        /// The key within the channel's section; empty if no single key is at fault.
        key: String,
        /// The problem, and what to write instead.
        message: String,
    },
    /// The platform rejects the credentials.
    #[error("the platform refuses the credentials: {0}")]
    Auth(String),
    /// Another program receives with the same credentials, and the platform serves only one at a
    /// time.
    #[error("another program receives with these credentials: {0}")]
    Conflict(String),
    /// The platform's rate limit was exceeded.
    #[error("rate limited for {} ms", retry_after.as_millis())]
    RateLimited {
        /// Delay before the next attempt.
        retry_after: Duration,
    },
    /// The chat or message does not exist, or the bot may not write to it.
    #[error("cannot deliver there: {0}")]
    NotFound(String),
    /// The part is larger than the platform accepts.
    #[error("too large for the platform: {0}")]
    TooLarge(String),
    /// The platform will never accept this.
    #[error("the platform refuses: {0}")]
    Refused(String),
    /// The platform could not be reached or failed, and has certainly not accepted the part.
    #[error("the platform cannot be reached: {0}")]
    Unavailable(String),
    /// The chat consists of clients that come and go, and none is connected. No client has the
    /// part.
    #[error("no recipient is connected: {0}")]
    Away(String),
    /// The connection broke while the part was being sent: it is unknown whether the platform has
    /// it.
    #[error("unknown whether the platform took it: {0}")]
    Ambiguous(String),
}

/// Recovery from a failed send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRecovery {
    /// Retry, after the given pause if the platform requested one.
    Retry {
        /// The pause that the platform requested.
        after: Option<Duration>,
    },
    /// A retry may send the part twice: the policy decides.
    Uncertain,
    /// It will never succeed.
    GiveUp,
}

impl ChannelError {
    /// Returns how to recover from this error after a failed send.
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

    /// `true` if restarting the channel cannot help until the configuration, or something at the
    /// platform, is changed. The channel is then restarted rarely.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Config { .. } | Self::Auth(_))
    }
}
