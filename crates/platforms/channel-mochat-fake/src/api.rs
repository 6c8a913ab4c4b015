//! Outcomes of calls, in Mochat's envelope.

use nanobot_testkit::http::Response;
use serde_json::{Value, json};

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) message: String,
    /// `true` if a correct client never causes this error.
    is_clumsy: bool,
}

pub(crate) type ApiResult = Result<Value, ApiError>;

impl ApiError {
    /// Returns an error that a correct client may meet, with its usual message.
    pub(crate) fn new(code: u16) -> Self {
        let message = match code {
            400 => "Parameters validation error!",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not found",
            413 => "Message too long",
            429 => "Too many requests",
            503 => "Service unavailable",
            _ => "Internal error",
        };
        Self::with_message(code, message)
    }

    pub(crate) fn with_message(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_clumsy: false,
        }
    }

    /// Returns the refusal of a malformed parameter.
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self {
            is_clumsy: true,
            ..Self::with_message(400, reason)
        }
    }

    /// Returns the refusal of an id that does not exist.
    pub(crate) fn unknown(what: &str, id: &str) -> Self {
        Self::with_message(404, format!("{what} {id} not found"))
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self, method: &str) -> Option<String> {
        self.is_clumsy
            .then(|| format!("{method}: {} {}", self.code, self.message))
    }
}

/// Returns the response of a call that succeeded.
pub(crate) fn success(data: &Value) -> Response {
    Response::json(200, &json!({"code": 200, "data": data}))
}

/// Returns the response of a failed call: its code is the status, too.
pub(crate) fn refusal(error: &ApiError) -> Response {
    refusal_with(error.code, error)
}

pub(crate) fn refusal_with(status: u16, error: &ApiError) -> Response {
    let body = json!({"code": error.code, "name": "ClawError", "message": error.message});
    Response::json(status, &body)
}
