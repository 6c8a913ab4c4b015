//! Refusals of the homeserver and their meaning to a channel.
//!
//! A refusal has a code (Matrix specification, "Standard error response"). Codes that are not
//! known here are judged by the HTTP status.

use std::fmt;
use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::call::{DEFAULT_RETRY_AFTER, MAX_RETRY_AFTER};
use reqwest::StatusCode;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in Matrix' own terms.
pub(crate) type Refusal = MatrixRefusal;

/// Longest text of a refusal that is shown, in characters.
const TEXT_LIMIT: usize = 300;

/// A refusal of the homeserver, or of the encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixRefusal {
    /// The HTTP status; 0 for a refusal of our own.
    status: u16,
    /// The code (`M_FORBIDDEN`); may be empty.
    code: String,
    /// In the homeserver's words.
    text: String,
    /// `true` if a new login continues the session.
    is_soft_logout: bool,
}

impl fmt::Display for MatrixRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code.as_str(), self.status) {
            ("", 0) => f.write_str(&self.text),
            ("", status) => write!(f, "{} (status {status})", self.text),
            (code, _) => write!(f, "{} ({code})", self.text),
        }
    }
}

impl MatrixRefusal {
    /// Creates a refusal without a call.
    pub(crate) fn own(text: impl Into<String>) -> Self {
        Self {
            status: 0,
            code: String::new(),
            text: text.into(),
            is_soft_logout: false,
        }
    }

    /// `true` if the access token was refused.
    pub(crate) fn is_about_the_token(&self) -> bool {
        matches!(
            self.code.as_str(),
            "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN" | "M_UNAUTHORIZED" | "M_USER_DEACTIVATED"
        ) || self.status == 401
    }

    /// `true` if the homeserver ended the session and keeps its device.
    pub(crate) fn is_soft_logout(&self) -> bool {
        self.is_about_the_token() && self.is_soft_logout
    }

    /// `true` if there is no such thing, or the homeserver does not know the call.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.code.as_str(), "M_NOT_FOUND" | "M_UNRECOGNIZED") || self.status == 404
    }

    /// `true` if the homeserver itself says that there is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code == "M_NOT_FOUND"
    }

    /// `true` if there is no such room, or the account is not in it.
    pub(crate) fn is_about_the_room(&self) -> bool {
        self.is_missing() || self.code == "M_FORBIDDEN" || self.status == 403
    }

    /// `true` if the position of a sync may have been refused.
    pub(crate) fn is_about_the_request(&self) -> bool {
        self.status == 400
    }
}

impl nanobot_channel_kit::Refusal for MatrixRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match (self.code.as_str(), self.status) {
            _ if self.is_about_the_token() => {
                ChannelError::Auth(format!("{text}; check accessToken or password"))
            }
            ("M_TOO_LARGE", _) | (_, 413) => ChannelError::TooLarge(text),
            ("M_FORBIDDEN" | "M_NOT_FOUND" | "M_GUEST_ACCESS_FORBIDDEN", _) | (_, 403 | 404) => {
                ChannelError::NotFound(text)
            }
            (_, 500..) => ChannelError::Unavailable(text),
            _ => ChannelError::Refused(text),
        }
    }
}

/// Returns the failure that an answer with an error status means. `header_pause` is the pause of
/// its header `Retry-After`. `text` has no secrets.
pub(crate) fn from_answer(
    status: StatusCode,
    answer: &Value,
    text: &str,
    header_pause: Option<Duration>,
) -> CallError {
    let member = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    let code: String = member("errcode").chars().take(64).collect();
    if code == "M_LIMIT_EXCEEDED" || status == StatusCode::TOO_MANY_REQUESTS {
        let pause = answer.get("retry_after_ms").and_then(Value::as_u64);
        let pause = header_pause.or(pause.map(Duration::from_millis));
        let pause = pause.unwrap_or(DEFAULT_RETRY_AFTER).min(MAX_RETRY_AFTER);
        return CallError::RateLimited(pause);
    }
    let text: String = text.chars().take(TEXT_LIMIT).collect();
    CallError::Refused(MatrixRefusal {
        status: status.as_u16(),
        text: if text.is_empty() {
            "the homeserver refuses".to_owned()
        } else {
            text
        },
        code,
        is_soft_logout: answer.get("soft_logout") == Some(&Value::Bool(true)),
    })
}

/// Converts the failure of a call without which the channel cannot work. A login that is refused
/// is about the credentials.
pub(crate) fn required_call_error(error: CallError) -> ChannelError {
    match error {
        CallError::Refused(refusal) if refusal.code == "M_FORBIDDEN" => {
            ChannelError::Auth(format!("{refusal}; check userId and password"))
        }
        error => error.repeatable(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(status: u16, answer: &Value) -> String {
        let status = StatusCode::from_u16(status).unwrap();
        let text = answer.get("error").and_then(Value::as_str);
        let error = from_answer(status, answer, text.unwrap_or_default(), None);
        ChannelError::from(error).to_string()
    }

    #[test]
    fn refusals_map_to_channel_errors() {
        let table = [
            (
                (401, json!({"errcode": "M_UNKNOWN_TOKEN", "error": "gone"})),
                "the platform refuses the credentials: gone (M_UNKNOWN_TOKEN); check accessToken \
                 or password",
            ),
            (
                (403, json!({"errcode": "M_FORBIDDEN", "error": "no"})),
                "cannot deliver there: no (M_FORBIDDEN)",
            ),
            (
                (413, json!({"errcode": "M_TOO_LARGE", "error": "big"})),
                "too large for the platform: big (M_TOO_LARGE)",
            ),
            (
                (
                    429,
                    json!({"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 1500}),
                ),
                "rate limited for 1500 ms",
            ),
            ((429, json!(null)), "rate limited for 5000 ms"),
            (
                (502, json!({})),
                "the platform cannot be reached: the homeserver refuses (status 502)",
            ),
            (
                (400, json!({"errcode": "M_BAD_JSON", "error": "bad"})),
                "the platform refuses: bad (M_BAD_JSON)",
            ),
        ];
        for ((status, answer), expected) in table {
            assert_eq!(judged(status, &answer), expected, "{status}");
        }
    }

    #[test]
    fn pause_is_that_of_the_header_and_bounded() {
        let answer = json!({"retry_after_ms": u64::MAX});
        let pause =
            |header| from_answer(StatusCode::TOO_MANY_REQUESTS, &answer, "", header).retry_after();
        let header = Duration::from_secs(2);
        assert_eq!(pause(Some(header)), Some(header));
        assert_eq!(pause(None), Some(MAX_RETRY_AFTER));
    }

    #[test]
    fn soft_logout_is_one_of_a_refused_token() {
        let refusal = |answer: Value| match from_answer(StatusCode::UNAUTHORIZED, &answer, "", None)
        {
            CallError::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        };
        let soft = refusal(json!({"errcode": "M_UNKNOWN_TOKEN", "soft_logout": true}));
        let hard = refusal(json!({"errcode": "M_UNKNOWN_TOKEN"}));
        assert!(soft.is_soft_logout() && !hard.is_soft_logout());
    }
}
