//! What may come of a call, and what that means to a channel.

use std::time::Duration;

use nanobot_channel::ChannelError;

/// The request is larger than the server takes.
const TOO_LARGE: u64 = 40_005;
/// There is no such message (any more).
const UNKNOWN_MESSAGE: u64 = 10_008;

/// Why a call failed. Texts hold no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The server answered that it will not.
    #[error("{message} (status {status}, code {code})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Discord's own number; 0 where it says none.
        code: u64,
        /// In the server's words.
        message: String,
    },
    /// The server asks to come again later.
    #[error("too many requests; again in {} ms", .0.as_millis())]
    Limited(Duration),
    /// The request did not get there, or something between here and Discord answered.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have got there, but there is no answer.
    #[error("{0}")]
    Interrupted(String),
    /// There is an answer that is none of Discord's.
    #[error("the answer cannot be understood: {0}")]
    Misunderstood(String),
    /// There is no client to ask with.
    #[error("no connection can be made: {0}")]
    Setup(String),
}

impl CallError {
    /// The pause the server asks for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited(pause) => Some(*pause),
            _ => None,
        }
    }

    /// Whether the message that a call is about is gone.
    pub(crate) fn is_about_a_lost_message(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: UNKNOWN_MESSAGE,
                ..
            }
        )
    }

    /// Whether trying again later may help.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Refused { status, .. } => *status >= 500,
            Self::Limited(_) | Self::Unreachable(_) | Self::Interrupted(_) => true,
            Self::Misunderstood(_) | Self::Setup(_) => false,
        }
    }

    /// The same for a call that does no harm when it is made twice.
    pub(crate) fn repeatable(self) -> ChannelError {
        nanobot_channel_kit::repeatable(self.into())
    }
}

impl From<CallError> for ChannelError {
    fn from(error: CallError) -> Self {
        let text = error.to_string();
        match error {
            CallError::Limited(retry_after) => Self::RateLimited { retry_after },
            CallError::Unreachable(_) | CallError::Setup(_) => Self::Unavailable(text),
            CallError::Interrupted(_) | CallError::Misunderstood(_) => Self::Ambiguous(text),
            CallError::Refused { status, code, .. } => match status {
                401 => Self::Auth(text),
                413 => Self::TooLarge(text),
                _ if code == TOO_LARGE => Self::TooLarge(text),
                403 | 404 => Self::NotFound(text),
                500.. => Self::Unavailable(text),
                _ => Self::Refused(text),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_means_what_its_numbers_say() {
        let refused = |status, code| CallError::Refused {
            status,
            code,
            message: "No".to_owned(),
        };
        let table = [
            (
                refused(401, 0),
                "the platform refuses the credentials: No (status 401, code 0)",
            ),
            (
                refused(403, 50_013),
                "cannot deliver there: No (status 403, code 50013)",
            ),
            (
                refused(404, 10_003),
                "cannot deliver there: No (status 404, code 10003)",
            ),
            (
                refused(413, 0),
                "too large for the platform: No (status 413, code 0)",
            ),
            (
                refused(400, 40_005),
                "too large for the platform: No (status 400, code 40005)",
            ),
            (
                refused(400, 50_035),
                "the platform refuses: No (status 400, code 50035)",
            ),
            (
                refused(503, 0),
                "the platform cannot be reached: No (status 503, code 0)",
            ),
            (
                CallError::Limited(Duration::from_millis(1500)),
                "rate limited for 1500 ms",
            ),
            (
                CallError::Unreachable("no route".into()),
                "the platform cannot be reached: no route",
            ),
            (
                CallError::Interrupted("reset".into()),
                "unknown whether the platform took it: reset",
            ),
        ];
        for (error, text) in table {
            assert_eq!(ChannelError::from(error).to_string(), text);
        }
        let repeatable = CallError::Interrupted("reset".into()).repeatable();
        assert_eq!(
            repeatable.to_string(),
            "the platform cannot be reached: reset"
        );
    }
}
