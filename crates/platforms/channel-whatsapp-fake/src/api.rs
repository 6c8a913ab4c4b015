//! Outcomes of requests, and their frames.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: String,
    message: String,
    /// Pause in seconds.
    retry_after: Option<u64>,
    /// `true` if a correct client never causes this error.
    is_clumsy: bool,
}

/// The answer to a request without its `requestId`; `Null` if the request has none.
pub(crate) type ApiResult = Result<Value, ApiError>;

/// WhatsApp's server is not connected.
pub(crate) const NOT_CONNECTED: &str = "not_connected";
/// No device is linked.
pub(crate) const UNLINKED: &str = "unlinked";
/// No such chat, number, file or message.
pub(crate) const NOT_FOUND: &str = "not_found";
/// Not a member, or blocked.
pub(crate) const FORBIDDEN: &str = "forbidden";
/// Too many requests.
pub(crate) const RATE_LIMITED: &str = "rate_limited";
/// More than is accepted.
pub(crate) const TOO_LARGE: &str = "too_large";
/// A wrong request.
pub(crate) const INVALID: &str = "invalid";
/// It may have been sent.
pub(crate) const UNKNOWN_OUTCOME: &str = "unknown_outcome";

/// Codes with a text for a person, and `true` if only an incorrect client causes them.
const CODES: &[(&str, &str, bool)] = &[
    (NOT_CONNECTED, "not connected to WhatsApp", false),
    (UNLINKED, "no device is linked", false),
    (NOT_FOUND, "not found", false),
    (FORBIDDEN, "not allowed", false),
    (RATE_LIMITED, "too many requests", false),
    (TOO_LARGE, "too large", false),
    (INVALID, "invalid request", true),
    (UNKNOWN_OUTCOME, "no answer from WhatsApp", false),
];

impl ApiError {
    /// Returns an error with its usual text.
    pub(crate) fn new(code: &str) -> Self {
        let known = CODES.iter().find(|(known, ..)| *known == code);
        let (_, message, is_clumsy) = known.copied().unwrap_or((code, "failed", false));
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            retry_after: None,
            is_clumsy,
        }
    }

    pub(crate) fn with_message(code: &str, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::new(code)
        }
    }

    /// Returns an error whose text has a reason.
    pub(crate) fn because(code: &str, reason: &str) -> Self {
        let error = Self::new(code);
        Self {
            message: format!("{}: {reason}", error.message),
            ..error
        }
    }

    /// Returns the refusal of a request that is wrong.
    pub(crate) fn invalid(reason: &str) -> Self {
        Self::because(INVALID, reason)
    }

    /// Returns a refusal with a pause in seconds.
    pub(crate) fn rate_limited(seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..Self::new(RATE_LIMITED)
        }
    }

    /// Returns an error that no correct client causes.
    pub(crate) fn clumsy(self) -> Self {
        Self {
            is_clumsy: true,
            ..self
        }
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self, method: &str) -> Option<String> {
        self.is_clumsy
            .then(|| format!("{method}: {} {}", self.code, self.message))
    }

    fn frame(&self) -> Value {
        let mut frame = json!({"type": "error", "code": self.code, "error": self.message});
        if let Some(seconds) = self.retry_after {
            set(&mut frame, "retryAfter", seconds);
        }
        frame
    }

    /// Returns the error as version 1 has it.
    pub(crate) fn frame_of_version_1(&self) -> Value {
        json!({"type": "error", "error": format!("Error: {}", self.message)})
    }
}

/// Returns the answer to a request; `None` if it has none.
pub(crate) fn answer(request_id: Option<&str>, result: &ApiResult) -> Option<Value> {
    let mut frame = match result {
        Ok(Value::Null) => return None,
        Ok(frame) => frame.clone(),
        Err(error) => error.frame(),
    };
    if let Some(id) = request_id {
        set(&mut frame, "requestId", id);
    }
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_id_of_their_request() {
        let done = answer(Some("a"), &Ok(json!({"type": "sent"})));
        assert_eq!(done, Some(json!({"type": "sent", "requestId": "a"})));
        assert_eq!(answer(Some("a"), &Ok(Value::Null)), None);
        let refused = answer(None, &Err(ApiError::rate_limited(5)));
        let expected = json!({
            "type": "error", "code": "rate_limited", "error": "too many requests", "retryAfter": 5,
        });
        assert_eq!(refused, Some(expected));
        let refused = answer(Some("b"), &Err(ApiError::new("of_tomorrow"))).unwrap();
        assert_eq!(
            (&refused["requestId"], &refused["code"]),
            (&json!("b"), &json!("of_tomorrow"))
        );
    }
}
