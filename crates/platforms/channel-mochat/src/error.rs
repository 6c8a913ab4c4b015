//! Mochat's refusals and their meaning to a channel.
//!
//! Answers carry a code like that of HTTP; 200 is success. The socket refuses a connection in
//! words. This is the one place that knows both.
//!
//! Decision: "forbidden" refuses the place of a call, and the token only if the call has no place.
//! Otherwise, a person who removes the agent from a group would end the whole channel.

use std::fmt;
use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;
use reqwest::StatusCode;

use crate::wire::text_at;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in Mochat's own terms.
pub(crate) type Refusal = MochatRefusal;

/// Words of a refused connection that are about the token.
const AUTH_WORDS: &[&str] = &[
    "auth",
    "token",
    "unauthorized",
    "forbidden",
    "credential",
    "jwt",
    "401",
    "403",
];

/// The longest text of a refusal that is shown, in characters.
const TEXT_LIMIT: usize = 500;

/// A refusal with Mochat's code for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MochatRefusal {
    code: i64,
    /// In Mochat's words.
    text: String,
}

impl fmt::Display for MochatRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.text, self.code)
    }
}

impl MochatRefusal {
    /// `true` if the place of a call does not exist (any more).
    pub(crate) fn is_about_the_place(&self) -> bool {
        matches!(self.code, 403 | 404 | 410)
    }

    /// `true` if the credentials are at fault, not the call.
    pub(crate) fn is_about_the_token(&self) -> bool {
        self.code == 401
    }
}

impl nanobot_channel_kit::Refusal for MochatRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.code {
            401 => ChannelError::Auth(format!("{text}; check clawToken")),
            403 | 404 | 410 => ChannelError::NotFound(text),
            413 => ChannelError::TooLarge(text),
            _ => ChannelError::Refused(text),
        }
    }
}

/// Returns the failure for a code with Mochat's text. `pause` is the one that the answer asks for.
pub(crate) fn from_code(code: i64, text: &str, pause: Option<Duration>) -> CallError {
    let text = match text.trim() {
        "" => "no reason was given",
        text => text,
    };
    match code {
        429 => CallError::RateLimited(pause.unwrap_or(DEFAULT_RETRY_AFTER)),
        503 => CallError::Unreachable(format!("Mochat cannot do it now: {text}")),
        500..=599 => CallError::Interrupted(format!(
            "Mochat failed in the middle of it: {text} (code {code})"
        )),
        _ => CallError::Refused(MochatRefusal {
            code,
            text: text.chars().take(TEXT_LIMIT).collect(),
        }),
    }
}

/// Returns the failure for a refused connection to the socket.
pub(crate) fn from_connect_error(data: &Value) -> CallError {
    let text = match data {
        Value::String(text) => text.clone(),
        data => text_at(data, &["message", "error"]),
    };
    // The reason can be in the data of the error, too.
    let words = data.to_string().to_lowercase();
    if AUTH_WORDS.iter().any(|word| words.contains(word)) {
        return from_code(401, &text, None);
    }
    let text: String = text.chars().take(TEXT_LIMIT).collect();
    CallError::Unreachable(format!("Mochat refused it ({text})"))
}

/// Returns the meaning of a failure for a call that the channel cannot run without: any refusal of
/// it is as bad as a wrong token.
pub(crate) fn required_call_error(error: CallError) -> ChannelError {
    match error.repeatable() {
        ChannelError::Refused(why) | ChannelError::NotFound(why) | ChannelError::TooLarge(why) => {
            ChannelError::Auth(why)
        }
        error => error,
    }
}

/// Returns the failure for an HTTP status with an answer that is none of Mochat's.
pub(crate) fn from_status(status: StatusCode, pause: Option<Duration>) -> CallError {
    if status == StatusCode::TOO_MANY_REQUESTS {
        return from_code(429, "", pause);
    }
    nanobot_channel_kit::Rest::intermediary_error("Mochat", status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_map_to_channel_errors() {
        let table = [
            (
                401,
                "the platform refuses the credentials: no (code 401); check clawToken",
            ),
            (403, "cannot deliver there: no (code 403)"),
            (404, "cannot deliver there: no (code 404)"),
            (413, "too large for the platform: no (code 413)"),
            (429, "rate limited for 5000 ms"),
            (
                503,
                "the platform cannot be reached: Mochat cannot do it now: no",
            ),
            (
                500,
                "unknown whether the platform took it: Mochat failed in the middle of it: no (code 500)",
            ),
            (400, "the platform refuses: no (code 400)"),
            (-1, "the platform refuses: no (code -1)"),
        ];
        for (code, expected) in table {
            let error = ChannelError::from(from_code(code, "no", None));
            assert_eq!(error.to_string(), expected);
        }
        let pause = Some(Duration::from_secs(7));
        assert_eq!(
            from_code(429, "", pause),
            CallError::RateLimited(Duration::from_secs(7))
        );
    }

    #[test]
    fn refusal_of_a_required_call_is_permanent() {
        for code in [400, 401, 403, 404] {
            let error = required_call_error(from_code(code, "no", None));
            assert!(matches!(error, ChannelError::Auth(_)), "{code}: {error}");
        }
        let error = required_call_error(from_code(500, "no", None));
        assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    }

    #[test]
    fn refused_connections_are_about_the_token_or_not() {
        let auth = [
            json!({"message": "Authentication error"}),
            json!({"message": "no", "data": {"code": 401}}),
            json!("invalid token"),
        ];
        for data in auth {
            let error = ChannelError::from(from_connect_error(&data));
            assert!(matches!(error, ChannelError::Auth(_)), "{data}: {error}");
        }
        for data in [
            json!({"message": "server is full"}),
            json!("busy"),
            json!(null),
        ] {
            let error = ChannelError::from(from_connect_error(&data));
            assert!(
                matches!(error, ChannelError::Unavailable(_)),
                "{data}: {error}"
            );
        }
    }
}
