//! Outcomes of calls, in Discord's format.

use nanobot_testkit::http::Response;
use serde_json::{Value, json};

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestError {
    pub(crate) status: u16,
    pub(crate) code: u64,
    pub(crate) message: String,
}

pub(crate) type RestResult = Result<Value, RestError>;

impl RestError {
    pub(crate) fn new(status: u16, code: u64, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// Returns the error for an invalid field.
    pub(crate) fn form(problem: impl AsRef<str>) -> Self {
        Self::new(
            400,
            50_035,
            format!("Invalid Form Body: {}", problem.as_ref()),
        )
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, 0, "401: Unauthorized")
    }

    pub(crate) fn unknown_route() -> Self {
        Self::new(404, 0, "404: Not Found")
    }

    pub(crate) fn unknown_channel() -> Self {
        Self::new(404, 10_003, "Unknown Channel")
    }

    pub(crate) fn unknown_message() -> Self {
        Self::new(404, 10_008, "Unknown Message")
    }
}

/// Returns the response to a call; `Null` has no body.
pub(crate) fn response(outcome: &RestResult) -> Response {
    let response = match outcome {
        Ok(Value::Null) => Response::bytes(204, "text/html; charset=utf-8", ""),
        Ok(result) => Response::json(200, result),
        Err(refusal) => Response::json(
            refusal.status,
            &json!({"code": refusal.code, "message": refusal.message}),
        ),
    };
    response
        .with_header("x-ratelimit-limit", "5")
        .with_header("x-ratelimit-bucket", "b0")
}
