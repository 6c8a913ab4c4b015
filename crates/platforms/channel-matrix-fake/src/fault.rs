//! Faults that can be scripted for one call.

use std::time::Duration;

use nanobot_testkit::Gate;
use nanobot_testkit::http::{Response, ResponseStep};
use serde_json::Value;

use crate::api::ApiError;

/// A fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers 429 `M_LIMIT_EXCEEDED` without a time; the call has no effect.
    RateLimited,
    /// Like [`Fault::RateLimited`], with `retry_after_ms` and the header `Retry-After` for this
    /// many seconds.
    RateLimitedFor(u32),
    /// Answers with this error code and its usual status; the call has no effect.
    Error(&'static str),
    /// Answers with this status, error code and message; the call has no effect.
    ErrorWith(u16, &'static str, String),
    /// Answers with this status and a web page; the call has no effect.
    Status(u16),
    /// Answers with this status and this JSON; the call has no effect.
    Answer(u16, Value),
    /// Answers 200 with a web page; the call has no effect.
    WebPage,
    /// Redirects to this address; the call has no effect.
    Redirect(String),
    /// Never answers; the call has no effect.
    Hang,
    /// Resets the connection; the call has no effect.
    Drop,
    /// The call takes effect, then the connection is reset.
    DropAfterEffect,
    /// The call takes effect, then no answer comes.
    HangAfterEffect,
    /// The call takes effect, then the answer has this error code.
    ErrorAfterEffect(&'static str),
    /// The call takes effect, and the body of the answer comes after this time.
    Slow(Duration),
    /// The call takes effect, and the body of the answer comes once the gate is open.
    Until(Gate),
    /// The call takes effect, and the body of the answer ends before its announced length.
    Truncated,
}

impl Fault {
    /// Returns the response that replaces the call, or `None` if the call is carried out.
    pub(crate) fn instead(&self) -> Option<Response> {
        let only = |step| Some(Response::headless(vec![step]));
        let page = |status| Some(Response::bytes(status, "text/html", "<html>A page</html>"));
        match self {
            Self::RateLimited => Some(ApiError::rate_limited(None).response()),
            Self::RateLimitedFor(seconds) => {
                let error = ApiError::rate_limited(Some(u64::from(*seconds) * 1000));
                let response = error.response();
                Some(response.with_header("Retry-After", seconds.to_string()))
            }
            Self::Error(code) => Some(ApiError::of_code(code).response()),
            Self::ErrorWith(status, code, message) => {
                Some(ApiError::new(*status, code, message).response())
            }
            Self::Status(status) => page(*status),
            Self::Answer(status, body) => Some(Response::json(*status, body)),
            Self::WebPage => page(200),
            Self::Redirect(to) => {
                Some(Response::bytes(302, "text/plain", "").with_header("location", to))
            }
            Self::Hang => only(ResponseStep::Hang),
            Self::Drop => only(ResponseStep::Reset),
            Self::DropAfterEffect
            | Self::HangAfterEffect
            | Self::ErrorAfterEffect(_)
            | Self::Slow(_)
            | Self::Until(_)
            | Self::Truncated => None,
        }
    }

    /// Returns the response sent after the call took effect.
    pub(crate) fn afterwards(self, mut answer: Response) -> Response {
        match self {
            Self::DropAfterEffect => Response::headless(vec![ResponseStep::Reset]),
            Self::HangAfterEffect => Response::headless(vec![ResponseStep::Hang]),
            Self::ErrorAfterEffect(code) => ApiError::of_code(code).response(),
            Self::Slow(pause) => {
                answer.steps.insert(0, ResponseStep::Wait(pause));
                answer
            }
            Self::Until(gate) => {
                answer.steps.insert(0, ResponseStep::Until(gate));
                answer
            }
            Self::Truncated => {
                answer.steps = truncated(answer.steps);
                answer
            }
            _ => answer,
        }
    }
}

/// Keeps the first half of each step, and resets the connection.
fn truncated(steps: Vec<ResponseStep>) -> Vec<ResponseStep> {
    let half = |step| match step {
        ResponseStep::Bytes(bytes) => ResponseStep::Bytes(bytes.slice(..bytes.len() / 2)),
        other => other,
    };
    let mut steps: Vec<ResponseStep> = steps.into_iter().map(half).collect();
    steps.push(ResponseStep::Reset);
    steps
}
