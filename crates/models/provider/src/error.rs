//! Errors of a model call, and how to recover from them.

use std::time::Duration;

/// Reason why a model call failed. The texts are for people: short, without keys, tokens or HTML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Too many requests at the moment.
    #[error("rate limited: {message}")]
    RateLimited {
        /// Delay that the vendor asks for.
        retry_after: Option<Duration>,
        /// The vendor's message.
        message: String,
    },
    /// The account has no credit or quota left.
    #[error("quota exhausted: {0}")]
    Quota(String),
    /// The key is missing, invalid or lacks a permission.
    #[error("not authorised: {0}")]
    Auth(String),
    /// The request does not fit into the model's context window.
    #[error("the conversation is too long for the model: {0}")]
    ContextOverflow(String),
    /// The model does not accept images.
    #[error("the model takes no images: {0}")]
    ImagesUnsupported(String),
    /// The vendor will never accept this request.
    #[error("request refused: {0}")]
    BadRequest(String),
    /// The vendor had an internal error.
    #[error("server error {status}: {message}")]
    Server {
        /// The HTTP status; 200 if the error came in an ordinary response.
        status: u16,
        /// Delay that the vendor asks for.
        retry_after: Option<Duration>,
        /// The vendor's message.
        message: String,
    },
    /// The vendor could not be reached, or the connection broke.
    #[error("connection failed: {0}")]
    Network(String),
    /// No data arrived for this long.
    #[error("no answer for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The answer could not be understood, or was truncated.
    #[error("unusable answer: {0}")]
    Malformed(String),
}

/// Recovery from a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Retry with the same candidate after a pause.
    RetrySame {
        /// The pause that the vendor asked for, if it named one.
        after: Option<Duration>,
    },
    /// Use another candidate; this one gets a cooldown.
    NextCandidate {
        /// Duration of the cooldown.
        cooldown: Duration,
    },
    /// Retry with a shorter conversation.
    Compact,
    /// Retry the same conversation without images.
    DropImages,
    /// Nothing helps: report the error to the user.
    GiveUp,
}

impl ProviderError {
    /// Returns how to recover from this error.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => {
                Recovery::RetrySame {
                    after: *retry_after,
                }
            }
            Self::Network(_) | Self::Stalled(_) | Self::Malformed(_) => {
                Recovery::RetrySame { after: None }
            }
            Self::Quota(_) => Recovery::NextCandidate {
                cooldown: Duration::from_secs(3600),
            },
            Self::Auth(_) => Recovery::NextCandidate {
                cooldown: Duration::from_secs(600),
            },
            Self::ContextOverflow(_) => Recovery::Compact,
            Self::ImagesUnsupported(_) => Recovery::DropImages,
            Self::BadRequest(_) => Recovery::GiveUp,
        }
    }
}
