//! Outcomes of calls: JSON, or an error with a code of Matrix.

use nanobot_testkit::http::Response;
use serde_json::{Value, json};

use crate::sync::SyncCall;

/// A successful outcome of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    Json(Value),
    /// A response that is no JSON.
    Whole(Response),
    /// A sync, which may have to wait.
    Sync(Box<SyncCall>),
}

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
    /// Members of the body besides code and message.
    pub(crate) extra: Value,
    /// `true` if a correct client never causes this error.
    is_clumsy: bool,
}

pub(crate) type ApiResult = Result<Outcome, ApiError>;

impl ApiError {
    /// Returns an error that a correct client may meet.
    pub(crate) fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
            extra: json!({}),
            is_clumsy: false,
        }
    }

    /// Returns an error with the usual status of a code.
    pub(crate) fn of_code(code: &str) -> Self {
        let (status, message) = match code {
            "M_UNKNOWN_TOKEN" => (401, "Unrecognised access token"),
            "M_MISSING_TOKEN" => (401, "Missing access token"),
            "M_FORBIDDEN" => (403, "You are not allowed to do that"),
            "M_USER_DEACTIVATED" => (403, "This account has been deactivated"),
            "M_NOT_FOUND" => (404, "Not found"),
            "M_UNRECOGNIZED" => (404, "Unrecognized request"),
            "M_TOO_LARGE" => (413, "Too large"),
            "M_LIMIT_EXCEEDED" => (429, "Too Many Requests"),
            "M_UNKNOWN" => (500, "Internal server error"),
            _ => (400, "Bad request"),
        };
        Self::new(status, code, message)
    }

    /// Returns the refusal of an id that does not exist.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(404, "M_NOT_FOUND", format!("{what} not found"))
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "M_FORBIDDEN", message)
    }

    /// Returns the refusal of a call that no correct client makes.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(400, "M_INVALID_PARAM", message).clumsy()
    }

    /// Returns the refusal of a call above the limit of calls.
    pub(crate) fn rate_limited(retry_after_ms: Option<u64>) -> Self {
        let mut error = Self::of_code("M_LIMIT_EXCEEDED");
        if let Some(time) = retry_after_ms {
            error.extra = json!({"retry_after_ms": time});
        }
        error
    }

    /// Marks the error as one that no correct client causes.
    pub(crate) fn clumsy(mut self) -> Self {
        self.is_clumsy = true;
        self
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self, method: &str) -> Option<String> {
        self.is_clumsy
            .then(|| format!("{method}: {} {}", self.code, self.message))
    }

    /// Returns the response.
    pub(crate) fn response(&self) -> Response {
        let mut body = json!({"errcode": self.code, "error": self.message});
        if self.code.is_empty() {
            body = json!({});
        }
        if let (Some(body), Some(extra)) = (body.as_object_mut(), self.extra.as_object()) {
            body.extend(extra.clone());
        }
        Response::json(self.status, &body)
    }
}

/// Returns the outcome of a call without a result.
#[expect(clippy::unnecessary_wraps, reason = "the result of a call")]
pub(crate) fn nothing() -> ApiResult {
    Ok(Outcome::Json(json!({})))
}

/// Returns the outcome of a call with a result.
#[expect(clippy::unnecessary_wraps, reason = "the result of a call")]
pub(crate) fn success(body: Value) -> ApiResult {
    Ok(Outcome::Json(body))
}
