//! Outcomes of calls, in Slack's format.

use nanobot_testkit::http::Response;
use serde_json::{Value, json};

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    code: String,
    messages: Vec<String>,
}

pub(crate) type ApiResult = Result<Value, ApiError>;

impl ApiError {
    pub(crate) fn new(code: &str) -> Self {
        Self {
            code: code.to_owned(),
            messages: Vec::new(),
        }
    }

    pub(crate) fn because(code: &str, message: impl Into<String>) -> Self {
        Self {
            messages: vec![format!("[ERROR] {}", message.into())],
            ..Self::new(code)
        }
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self) -> Option<String> {
        let is_clumsy = self.code.starts_with("invalid_") && self.code != "invalid_auth";
        (is_clumsy || self.code == "unknown_method")
            .then(|| format!("{} {}", self.code, self.messages.join(" ")))
    }
}

pub(crate) fn refusal(error: &ApiError) -> Response {
    let mut body = json!({"ok": false, "error": error.code});
    if !error.messages.is_empty() {
        nanobot_testkit::json::set(
            &mut body,
            "response_metadata",
            json!({"messages": error.messages}),
        );
    }
    Response::json(200, &body)
}

pub(crate) fn response(outcome: &ApiResult) -> Response {
    match outcome {
        Ok(result) => {
            let mut body = result.clone();
            nanobot_testkit::json::set(&mut body, "ok", true);
            Response::json(200, &body)
        }
        Err(error) => refusal(error),
    }
}
