//! What may come of a call, and what that means to a channel.
//!
//! The Bot API tells most refusals apart by their description alone, so this is the one place that
//! looks into texts.

use std::time::Duration;

use nanobot_channel::ChannelError;

/// How long to wait when the server says "too many" without saying how long.
const USUAL_WAIT: Duration = Duration::from_secs(5);

/// Why a call failed. Texts hold no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The server answered that it will not.
    #[error("{description} (code {code})")]
    Refused {
        /// An HTTP status.
        code: u16,
        /// In the server's words.
        description: String,
        /// When to come again.
        retry_after: Option<Duration>,
        /// The id that the chat has now.
        migrated_to: Option<i64>,
    },
    /// The request did not get there.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have got there, but there is no answer.
    #[error("{0}")]
    Interrupted(String),
    /// There is an answer that is none of the Bot API's.
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
            Self::Refused {
                code: 429,
                retry_after,
                ..
            } => Some(retry_after.unwrap_or(USUAL_WAIT)),
            _ => None,
        }
    }

    /// Whether the markup is why a text was refused.
    pub(crate) fn is_about_markup(&self) -> bool {
        self.says(&[
            "can't parse entities",
            "unsupported start tag",
            "unmatched end tag",
        ])
    }

    /// Whether an edit failed because the message already is what it shall become.
    pub(crate) fn is_not_modified(&self) -> bool {
        self.says(&["message is not modified"])
    }

    /// Whether an edit failed because the message cannot be edited (any more).
    pub(crate) fn is_not_editable(&self) -> bool {
        self.says(&[
            "message to edit not found",
            "message can't be edited",
            "message_id_invalid",
            "no text in the message",
        ])
    }

    /// Whether a picture was refused for what it is: as a plain file it may go.
    pub(crate) fn is_about_the_picture(&self) -> bool {
        self.says(&[
            "photo_invalid_dimensions",
            "image_process_failed",
            "photo_ext_invalid",
            "photo_save_file_invalid",
        ])
    }

    /// Whether somebody takes no voice messages: as a plain file it may go.
    pub(crate) fn is_about_voices(&self) -> bool {
        self.says(&["voice_messages_forbidden"])
    }

    /// Whether the topic is what is wrong, and not the chat around it.
    pub(crate) fn is_about_the_topic(&self) -> bool {
        self.says(&[
            "thread not found",
            "topic_closed",
            "topic_deleted",
            "topic_id_invalid",
        ])
    }

    /// Whether the same may go well a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code >= 500 || *code == 429,
            Self::Unreachable(_) | Self::Interrupted(_) | Self::Misunderstood(_) => true,
            Self::Setup(_) => false,
        }
    }

    /// Whether polling failed because a webhook is set.
    pub(crate) fn is_about_webhook(&self) -> bool {
        self.says(&["webhook is active"])
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let Self::Refused { description, .. } = self else {
            return false;
        };
        let description = description.to_ascii_lowercase();
        phrases.iter().any(|phrase| description.contains(phrase))
    }

    fn is_about_the_place(&self) -> bool {
        self.says(&[
            "chat not found",
            "user not found",
            "thread not found",
            "topic_closed",
            "topic_deleted",
            "peer_id_invalid",
            "chat_write_forbidden",
            "not enough rights",
            "have no rights",
            "upgraded to a supergroup",
            "deactivated",
        ])
    }

    /// The same for a call that does no harm when it is made twice.
    pub(crate) fn repeatable(self) -> ChannelError {
        nanobot_channel_kit::repeatable(self.into())
    }
}

impl From<CallError> for ChannelError {
    fn from(error: CallError) -> Self {
        let code = match &error {
            CallError::Unreachable(_) | CallError::Setup(_) => {
                return Self::Unavailable(error.to_string());
            }
            CallError::Interrupted(_) | CallError::Misunderstood(_) => {
                return Self::Ambiguous(error.to_string());
            }
            CallError::Refused { code, .. } => *code,
        };
        if let Some(retry_after) = error.retry_after() {
            return Self::RateLimited { retry_after };
        }
        let text = error.to_string();
        match code {
            // A token of the wrong shape is "not found", because it is part of the address.
            401 | 404 => Self::Auth(format!("{text}; check the token")),
            403 => Self::NotFound(text),
            413 => Self::TooLarge(text),
            409 => Self::Conflict(text),
            500.. => Self::Unavailable(text),
            _ if error.is_about_the_place() => Self::NotFound(text),
            _ if error.says(&["too long", "too_long", "too big", "too large"]) => {
                Self::TooLarge(text)
            }
            _ => Self::Refused(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, description: &str) -> CallError {
        CallError::Refused {
            code,
            description: description.to_owned(),
            retry_after: None,
            migrated_to: None,
        }
    }

    #[test]
    fn every_failure_says_what_follows() {
        let table = [
            (
                refused(401, "Unauthorized"),
                "the platform refuses the credentials: Unauthorized (code 401); check the token",
            ),
            (
                refused(404, "Not Found"),
                "the platform refuses the credentials: Not Found (code 404); check the token",
            ),
            (
                refused(403, "Forbidden: bot was blocked by the user"),
                "cannot deliver there: Forbidden: bot was blocked by the user (code 403)",
            ),
            (
                refused(400, "Bad Request: chat not found"),
                "cannot deliver there: Bad Request: chat not found (code 400)",
            ),
            (
                refused(400, "Bad Request: message is too long"),
                "too large for the platform: Bad Request: message is too long (code 400)",
            ),
            (
                refused(413, "Request Entity Too Large"),
                "too large for the platform: Request Entity Too Large (code 413)",
            ),
            (
                refused(400, "Bad Request: BUTTON_DATA_INVALID"),
                "the platform refuses: Bad Request: BUTTON_DATA_INVALID (code 400)",
            ),
            (
                refused(502, "Bad Gateway"),
                "the platform cannot be reached: Bad Gateway (code 502)",
            ),
            (
                refused(429, "Too Many Requests"),
                "rate limited for 5000 ms",
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
