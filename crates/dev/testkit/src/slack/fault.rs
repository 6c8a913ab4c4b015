//! What may go wrong with one call.

use serde_json::json;

use super::api::{ApiError, refusal};
use crate::http::{Response, Step};

/// A fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 429 with `Retry-After` in seconds; nothing is done.
    RetryAfter(u32),
    /// `ok: false` with this word; nothing is done.
    Error(String),
    /// This status with a web page; nothing is done.
    Status(u16),
    /// 200 with a web page, as of a login; nothing is done.
    WebPage,
    /// A redirect to there; nothing is done.
    Redirect(String),
    /// Never answered; nothing is done.
    Hang,
    /// The connection is reset; nothing is done.
    Drop,
    /// The call takes effect, then the connection is reset.
    DropAfterEffect,
    /// The call takes effect, then `ok: false` comes with this word.
    ErrorAfterEffect(String),
}

impl Fault {
    /// `ok: false` with this word.
    #[must_use]
    pub fn error(code: &str) -> Self {
        Self::Error(code.to_owned())
    }

    /// What the client gets instead of a call; `None` when the call is made all the same.
    pub(super) fn instead(&self) -> Option<Response> {
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
            Self::Hang => Some(Response::headless(vec![Step::Hang])),
            Self::Drop => Some(Response::headless(vec![Step::Reset])),
            Self::DropAfterEffect | Self::ErrorAfterEffect(_) => None,
        }
    }

    /// What the client gets after the call was made; `None` when it gets the answer.
    pub(super) fn afterwards(&self) -> Option<Response> {
        match self {
            Self::DropAfterEffect => Some(Response::headless(vec![Step::Reset])),
            Self::ErrorAfterEffect(code) => Some(refusal(&ApiError::new(code))),
            _ => None,
        }
    }
}
