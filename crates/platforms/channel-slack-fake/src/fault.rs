//! Faults that can be scripted for one call.

use nanobot_testkit::http::{Response, ResponseStep};
use serde_json::json;

use crate::api::{ApiError, refusal};

/// A fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers 429 with `Retry-After` in seconds; the call has no effect.
    RetryAfter(u32),
    /// Answers `ok: false` with this error code; the call has no effect.
    Error(String),
    /// Answers with this status and a web page; the call has no effect.
    Status(u16),
    /// Answers 200 with a web page, like a login page; the call has no effect.
    WebPage,
    /// Redirects to this address; the call has no effect.
    Redirect(String),
    /// Never answers; the call has no effect.
    Hang,
    /// Resets the connection; the call has no effect.
    Drop,
    /// The call takes effect, then the connection is reset.
    DropAfterEffect,
    /// The call takes effect, then the answer is `ok: false` with this error code.
    ErrorAfterEffect(String),
}

impl Fault {
    /// Returns a fault that answers `ok: false` with this error code.
    #[must_use]
    pub fn error(code: &str) -> Self {
        Self::Error(code.to_owned())
    }

    /// Returns the response that replaces the call, or `None` if the call is carried out.
    pub(crate) fn instead(&self) -> Option<Response> {
        match self {
            Self::RetryAfter(seconds) => {
                let body = json!({"ok": false, "error": "ratelimited"});
                Some(Response::json(429, &body).with_header("retry-after", seconds.to_string()))
            }
            Self::Error(code) => Some(refusal(&ApiError::new(code))),
            Self::Status(status) => Some(Response::bytes(
                *status,
                "text/html",
                "<html>Server error</html>",
            )),
            Self::WebPage => Some(Response::bytes(
                200,
                "text/html; charset=utf-8",
                "<!DOCTYPE html><p>Log in</p>",
            )),
            Self::Redirect(to) => {
                Some(Response::bytes(302, "text/plain", "").with_header("location", to))
            }
            Self::Hang => Some(Response::headless(vec![ResponseStep::Hang])),
            Self::Drop => Some(Response::headless(vec![ResponseStep::Reset])),
            Self::DropAfterEffect | Self::ErrorAfterEffect(_) => None,
        }
    }

    /// Returns the response sent after the call took effect, or `None` for the real answer.
    pub(crate) fn afterwards(&self) -> Option<Response> {
        match self {
            Self::DropAfterEffect => Some(Response::headless(vec![ResponseStep::Reset])),
            Self::ErrorAfterEffect(code) => Some(refusal(&ApiError::new(code))),
            _ => None,
        }
    }
}
