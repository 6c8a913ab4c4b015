//! Slack's refusals and their meaning to a channel.
//!
//! Slack names every refusal by a word, so this is the one place that knows the words.

use std::fmt;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;

/// Refusals that no retry heals: the token itself is wrong.
const TOKEN_CODES: &[&str] = &[
    "account_inactive",
    "app_missing_action_url",
    "invalid_auth",
    "not_allowed_token_type",
    "not_authed",
    "org_login_required",
    "token_expired",
    "token_revoked",
];
/// Refusals of the place, not of the message.
const PLACE_CODES: &[&str] = &[
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
const TRANSIENT_CODES: &[&str] = &[
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
];
/// Failures in the middle of the work: some of it may be done.
const AMBIGUOUS_CODES: &[&str] = &["fatal_error", "internal_error"];

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in Slack's own terms.
pub(crate) type Refusal = SlackRefusal;

/// A refusal in Slack's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlackRefusal {
    /// Slack's word for it.
    pub(crate) code: String,
    /// The scope that the token would need.
    pub(crate) needed: Option<String>,
}

impl fmt::Display for SlackRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = &self.code;
        match &self.needed {
            Some(scope) => write!(
                f,
                "{code}: the app needs the scope {scope}; add it and install the app again"
            ),
            None => f.write_str(code),
        }
    }
}

impl SlackRefusal {
    /// `true` if the message cannot be edited (any more).
    pub(crate) fn is_not_editable(&self) -> bool {
        self.is_one_of(&[
            "message_not_found",
            "cant_update_message",
            "edit_window_closed",
            "msg_too_long",
            "is_inactive",
        ])
    }

    /// `true` if a message may be taken without its blocks.
    pub(crate) fn is_about_blocks(&self) -> bool {
        self.is_one_of(&[
            "invalid_attachments",
            "invalid_blocks",
            "invalid_blocks_format",
            "msg_blocks_too_long",
        ])
    }

    /// `true` if the conversation or thread is not there, or not for the app.
    pub(crate) fn is_about_the_place(&self) -> bool {
        self.is_one_of(PLACE_CODES)
    }

    /// `true` if the reaction is there already, or gone already.
    pub(crate) fn is_already_done(&self) -> bool {
        self.is_one_of(&["already_reacted", "no_reaction"])
    }

    fn is_one_of(&self, codes: &[&str]) -> bool {
        codes.contains(&self.code.as_str())
    }
}

impl nanobot_channel_kit::Refusal for SlackRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        if self.is_one_of(TOKEN_CODES) {
            ChannelError::Auth(format!("{text}; check botToken and appToken"))
        } else if self.is_about_the_place() || self.code.starts_with("restricted_") {
            ChannelError::NotFound(text)
        } else if self.is_one_of(&["msg_too_long", "msg_blocks_too_long", "file_too_large"]) {
            ChannelError::TooLarge(text)
        } else {
            ChannelError::Refused(text)
        }
    }
}

/// Returns the failure for Slack's error word.
pub(crate) fn from_code(code: String, needed: Option<String>) -> CallError {
    match code.as_str() {
        "ratelimited" | "rate_limited" => CallError::RateLimited(DEFAULT_RETRY_AFTER),
        word if AMBIGUOUS_CODES.contains(&word) => {
            CallError::Interrupted(format!("Slack failed in the middle of it ({code})"))
        }
        word if TRANSIENT_CODES.contains(&word) => {
            CallError::Unreachable(format!("Slack cannot do it now ({code})"))
        }
        _ => CallError::Refused(Refusal { code, needed }),
    }
}

/// Returns the meaning of a failure for a call that the channel cannot run without: a missing scope
/// is as bad as a wrong token then.
pub(crate) fn required_call_error(error: CallError) -> ChannelError {
    let lacks_scope =
        |refusal: &Refusal| refusal.needed.is_some() || refusal.code == "missing_scope";
    if error.is(lacks_scope) {
        ChannelError::Auth(error.to_string())
    } else {
        error.repeatable()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failures_map_to_channel_errors() {
        let plain = |code: &str| from_code(code.to_owned(), None);
        let table = [
            (
                plain("token_revoked"),
                "the platform refuses the credentials: token_revoked; check botToken and appToken",
            ),
            (
                plain("channel_not_found"),
                "cannot deliver there: channel_not_found",
            ),
            (
                plain("restricted_action_read_only_channel"),
                "cannot deliver there: restricted_action_read_only_channel",
            ),
            (
                plain("msg_too_long"),
                "too large for the platform: msg_too_long",
            ),
            (
                plain("invalid_blocks"),
                "the platform refuses: invalid_blocks",
            ),
            (
                from_code("missing_scope".to_owned(), Some("files:write".to_owned())),
                "the platform refuses: missing_scope: the app needs the scope files:write; add it and install the app \
                 again",
            ),
            (
                plain("service_unavailable"),
                "the platform cannot be reached: Slack cannot do it now (service_unavailable)",
            ),
            (
                plain("internal_error"),
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
        let scope = from_code(
            "missing_scope".to_owned(),
            Some("connections:write".to_owned()),
        );
        assert!(required_call_error(scope).is_permanent());
        let repeatable = CallError::Interrupted("reset".into()).repeatable();
        assert_eq!(
            repeatable.to_string(),
            "the platform cannot be reached: reset"
        );
    }
}
