//! What may come of a call, and what that means to a channel.
//!
//! Slack names every refusal by a word, so this is the one place that knows the words.

use std::time::Duration;

use nanobot_channel::ChannelError;

/// Refusals that no new try heals: the token itself is wrong.
const TOKEN: &[&str] = &[
    "account_inactive",
    "app_missing_action_url",
    "invalid_auth",
    "not_allowed_token_type",
    "not_authed",
    "org_login_required",
    "token_expired",
    "token_revoked",
];
/// Refusals that mean the place, not the message.
const PLACE: &[&str] = &[
    "access_denied",
    "cannot_dm_bot",
    "cannot_reply_to_message",
    "channel_not_found",
    "is_archived",
    "message_not_found",
    "no_permission",
    "not_in_channel",
    "posting_to_general_channel_denied",
    "thread_not_found",
    "user_disabled",
    "user_not_found",
    "user_not_visible",
    "users_not_found",
];
/// Refusals that a later try may not meet; Slack has surely done nothing.
const LATER: &[&str] = &[
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
];
/// Failures in the middle of the work: some of it may be done.
const HALFWAY: &[&str] = &["fatal_error", "internal_error"];

/// Why a call failed. Texts hold no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// Slack answered that it will not.
    #[error("{}", refusal(code, needed.as_deref()))]
    Refused {
        /// Slack's word for it.
        code: String,
        /// The scope that the token would need.
        needed: Option<String>,
    },
    /// Too many calls.
    #[error("too many requests, to be repeated after {} s", _0.as_secs())]
    RateLimited(Duration),
    /// The request did not get there, or nothing was done about it.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have got there, but nobody knows what came of it.
    #[error("{0}")]
    Interrupted(String),
    /// There is no client to ask with.
    #[error("no connection can be made: {0}")]
    Setup(String),
}

fn refusal(code: &str, needed: Option<&str>) -> String {
    match needed {
        Some(scope) => {
            format!("{code}: the app needs the scope {scope}; add it and install the app again")
        }
        None => code.to_owned(),
    }
}

impl CallError {
    /// A refusal in Slack's word, or the failure that the word stands for.
    pub(crate) fn named(code: String, needed: Option<String>) -> Self {
        if HALFWAY.contains(&code.as_str()) {
            Self::Interrupted(format!("Slack failed in the middle of it ({code})"))
        } else if LATER.contains(&code.as_str()) {
            Self::Unreachable(format!("Slack cannot do it now ({code})"))
        } else {
            Self::Refused { code, needed }
        }
    }

    /// Whether Slack refused with one of these words.
    pub(crate) fn is(&self, codes: &[&str]) -> bool {
        matches!(self, Self::Refused { code, .. } if codes.contains(&code.as_str()))
    }

    /// Whether no token of this kind will do.
    pub(crate) fn is_about_the_token(&self) -> bool {
        self.is(TOKEN)
    }

    /// Whether an edit failed because the message cannot be edited (any more).
    pub(crate) fn is_not_editable(&self) -> bool {
        self.is(&[
            "message_not_found",
            "cant_update_message",
            "edit_window_closed",
            "msg_too_long",
            "is_inactive",
        ])
    }

    /// Whether a message was refused because of its blocks, and may be taken without them.
    pub(crate) fn is_about_blocks(&self) -> bool {
        self.is(&[
            "invalid_attachments",
            "invalid_blocks",
            "invalid_blocks_format",
            "msg_blocks_too_long",
        ])
    }

    /// Whether the conversation or thread is not there, or not for the app.
    pub(crate) fn is_about_the_place(&self) -> bool {
        self.is(PLACE)
    }

    /// Whether nobody knows what came of the call.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Interrupted(_))
    }

    /// The same for a call that does no harm when it is made twice.
    pub(crate) fn repeatable(self) -> ChannelError {
        nanobot_channel_kit::repeatable(self.into())
    }

    /// The same for a call that the channel cannot run without: a missing scope is as bad as a wrong
    /// token then.
    pub(crate) fn fundamental(self) -> ChannelError {
        match self {
            Self::Refused {
                needed: Some(_), ..
            } => ChannelError::Auth(self.to_string()),
            Self::Refused { ref code, .. } if code == "missing_scope" => {
                ChannelError::Auth(self.to_string())
            }
            other => other.repeatable(),
        }
    }
}

impl From<CallError> for ChannelError {
    fn from(error: CallError) -> Self {
        let text = error.to_string();
        match &error {
            CallError::RateLimited(retry_after) => Self::RateLimited {
                retry_after: *retry_after,
            },
            CallError::Unreachable(_) | CallError::Setup(_) => Self::Unavailable(text),
            CallError::Interrupted(_) => Self::Ambiguous(text),
            CallError::Refused { .. } if error.is_about_the_token() => {
                Self::Auth(format!("{text}; check botToken and appToken"))
            }
            CallError::Refused { code, .. }
                if PLACE.contains(&code.as_str()) || code.starts_with("restricted_") =>
            {
                Self::NotFound(text)
            }
            CallError::Refused { .. }
                if error.is(&["msg_too_long", "msg_blocks_too_long", "file_too_large"]) =>
            {
                Self::TooLarge(text)
            }
            CallError::Refused { .. } => Self::Refused(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_says_what_follows() {
        let named = |code: &str| CallError::named(code.to_owned(), None);
        let table = [
            (
                named("token_revoked"),
                "the platform refuses the credentials: token_revoked; check botToken and appToken",
            ),
            (
                named("channel_not_found"),
                "cannot deliver there: channel_not_found",
            ),
            (
                named("restricted_action_read_only_channel"),
                "cannot deliver there: restricted_action_read_only_channel",
            ),
            (
                named("msg_too_long"),
                "too large for the platform: msg_too_long",
            ),
            (
                named("invalid_blocks"),
                "the platform refuses: invalid_blocks",
            ),
            (
                CallError::named("missing_scope".to_owned(), Some("files:write".to_owned())),
                "the platform refuses: missing_scope: the app needs the scope files:write; add it and install the app \
                 again",
            ),
            (
                named("service_unavailable"),
                "the platform cannot be reached: Slack cannot do it now (service_unavailable)",
            ),
            (
                named("internal_error"),
                "unknown whether the platform took it: Slack failed in the middle of it (internal_error)",
            ),
            (
                CallError::RateLimited(Duration::from_secs(3)),
                "rate limited for 3000 ms",
            ),
            (
                CallError::Unreachable("no route".into()),
                "the platform cannot be reached: no route",
            ),
        ];
        for (error, text) in table {
            assert_eq!(ChannelError::from(error).to_string(), text);
        }
        let scope = CallError::named(
            "missing_scope".to_owned(),
            Some("connections:write".to_owned()),
        );
        assert!(scope.fundamental().is_permanent());
        let repeatable = CallError::Interrupted("reset".into()).repeatable();
        assert_eq!(
            repeatable.to_string(),
            "the platform cannot be reached: reset"
        );
    }
}
