//! The server's refusals and their meaning to a channel.
//!
//! The Bot API distinguishes most refusals by their description only, so this is the one place that
//! looks into texts.

use std::fmt;

use nanobot_channel::ChannelError;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in Telegram's own terms.
pub(crate) type Refusal = TelegramRefusal;

/// An answer of the server that it will not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelegramRefusal {
    /// An HTTP status.
    pub(crate) code: u16,
    /// In the server's words.
    pub(crate) description: String,
    /// The id that the chat has now.
    pub(crate) migrated_to: Option<i64>,
}

impl fmt::Display for TelegramRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.description, self.code)
    }
}

impl TelegramRefusal {
    /// `true` if the markup of a text was refused.
    pub(crate) fn is_about_markup(&self) -> bool {
        self.says(&[
            "can't parse entities",
            "unsupported start tag",
            "unmatched end tag",
        ])
    }

    /// `true` if the message already is what an edit would make of it.
    pub(crate) fn is_not_modified(&self) -> bool {
        self.says(&["message is not modified"])
    }

    /// `true` if the message cannot be edited (any more).
    pub(crate) fn is_not_editable(&self) -> bool {
        self.says(&[
            "message to edit not found",
            "message can't be edited",
            "message_id_invalid",
            "no text in the message",
        ])
    }

    /// `true` if a plain file may go where a picture or a voice message was refused.
    pub(crate) fn is_about_the_kind(&self) -> bool {
        self.says(&[
            "photo_invalid_dimensions",
            "image_process_failed",
            "photo_ext_invalid",
            "photo_save_file_invalid",
            "voice_messages_forbidden",
        ])
    }

    /// `true` if the topic is wrong, and not the chat around it.
    pub(crate) fn is_about_the_topic(&self) -> bool {
        self.says(&[
            "thread not found",
            "topic_closed",
            "topic_deleted",
            "topic_id_invalid",
        ])
    }

    /// `true` if polling failed because a webhook is set.
    pub(crate) fn is_about_webhook(&self) -> bool {
        self.says(&["webhook is active"])
    }

    /// `true` if the server does not know the method of the call. A wrong token has the same code,
    /// but fails all calls.
    pub(crate) fn is_unknown_method(&self) -> bool {
        self.code == 404 || self.says(&["method not found"])
    }

    /// `true` if the call itself was refused, and neither the bot nor the chat or topic.
    pub(crate) fn is_about_the_call(&self) -> bool {
        (400..500).contains(&self.code)
            && !matches!(self.code, 401 | 403 | 429)
            && !self.is_about_the_topic()
            && !self.is_about_the_place()
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let description = self.description.to_ascii_lowercase();
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
}

impl nanobot_channel_kit::Refusal for TelegramRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.code {
            // A token of the wrong shape is "not found", because it is part of the address.
            401 | 404 => ChannelError::Auth(format!("{text}; check the token")),
            403 => ChannelError::NotFound(text),
            413 => ChannelError::TooLarge(text),
            409 => ChannelError::Conflict(text),
            500.. => ChannelError::Unavailable(text),
            _ if self.is_about_the_place() => ChannelError::NotFound(text),
            _ if self.says(&["too long", "too_long", "too big", "too large"]) => {
                ChannelError::TooLarge(text)
            }
            _ => ChannelError::Refused(text),
        }
    }
}

/// `true` if the same call may go well a moment later.
pub(crate) fn is_transient(error: &CallError) -> bool {
    match error {
        CallError::Refused(refusal) => refusal.code >= 500,
        CallError::Setup(_) => false,
        CallError::RateLimited(_)
        | CallError::Unreachable(_)
        | CallError::Interrupted(_)
        | CallError::Misunderstood(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, description: &str) -> CallError {
        crate::api::refused(code, description)
    }

    #[test]
    fn failures_map_to_channel_errors() {
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
