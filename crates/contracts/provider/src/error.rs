//! What can go wrong with a model call, and what to do about it.

use std::time::Duration;

/// Why a model call failed. Texts are for people: short, without keys, tokens or HTML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Too many requests for now.
    #[error("rate limited: {message}")]
    RateLimited {
        /// How long the vendor asks to wait.
        retry_after: Option<Duration>,
        /// The vendor's words.
        message: String,
    },
    /// The account has no money or quota left.
    #[error("quota exhausted: {0}")]
    Quota(String),
    /// The key is missing, wrong or not allowed to do this.
    #[error("not authorised: {0}")]
    Auth(String),
    /// The request does not fit the model's window.
    #[error("the conversation is too long for the model: {0}")]
    ContextOverflow(String),
    /// The model takes no images.
    #[error("the model takes no images: {0}")]
    ImagesUnsupported(String),
    /// The vendor will never accept this request.
    #[error("request refused: {0}")]
    BadRequest(String),
    /// The vendor failed.
    #[error("server error {status}: {message}")]
    Server {
        /// The HTTP status; 200 when an error came in an ordinary answer.
        status: u16,
        /// The vendor's words.
        message: String,
    },
    /// The vendor could not be reached, or the connection broke.
    #[error("connection failed: {0}")]
    Network(String),
    /// Nothing came for this long.
    #[error("no answer for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The answer made no sense, or was cut.
    #[error("unusable answer: {0}")]
    Malformed(String),
}

/// What follows a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The same candidate again, after a pause (the vendor's, where it named one).
    RetrySame {
        /// The pause the vendor asked for.
        after: Option<Duration>,
    },
    /// Another candidate; this one rests for a while.
    NextCandidate {
        /// How long it rests.
        cooldown: Duration,
    },
    /// A shorter conversation.
    Compact,
    /// The same conversation without images.
    DropImages,
    /// Nothing helps: tell the person.
    GiveUp,
}

impl ProviderError {
    /// What to do about it.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::RateLimited { retry_after, .. } => Recovery::RetrySame {
                after: *retry_after,
            },
            Self::Server { .. } | Self::Network(_) | Self::Stalled(_) | Self::Malformed(_) => {
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
