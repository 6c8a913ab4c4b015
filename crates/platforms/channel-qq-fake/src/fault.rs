//! Faults that can be scripted for one call.

use std::time::Duration;

use nanobot_testkit::Gate;
use nanobot_testkit::http::{Response, ResponseStep};
use serde_json::Value;

use crate::api::{ApiError, refusal};

/// Code of the refusal of a call above the limit of calls.
const TOO_MANY: i64 = 22_009;

/// A fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers 429 that there are too many messages (22009); the call has no effect.
    RateLimited,
    /// Like [`Fault::RateLimited`], with the header `Retry-After` in seconds, which QQ does not
    /// document.
    RateLimitedFor(u32),
    /// Answers with this code and its usual status and message; the call has no effect.
    Error(i64),
    /// Answers with this status, code and message; the call has no effect.
    ErrorWith(u16, i64, String),
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
    /// The call takes effect, then the answer has this code.
    ErrorAfterEffect(i64),
    /// The call takes effect, and the body of the answer comes after this time.
    Slow(Duration),
    /// The call takes effect, and the body of the answer comes once the gate is open.
    Until(Gate),
    /// The body of the answer ends before its announced length; for downloads.
    Truncated,
}

impl Fault {
    /// Returns the response that replaces the call, or `None` if the call is carried out.
    pub(crate) fn instead(&self, log: u64) -> Option<Response> {
        let only = |step| Some(Response::headless(vec![step]));
        let page = |status| Some(Response::bytes(status, "text/html", "<html>A page</html>"));
        match self {
            Self::RateLimited => Some(refusal(&ApiError::new(TOO_MANY), log)),
            Self::RateLimitedFor(seconds) => {
                let response = refusal(&ApiError::new(TOO_MANY), log);
                Some(response.with_header("Retry-After", seconds.to_string()))
            }
            Self::Error(code) => Some(refusal(&ApiError::new(*code), log)),
            Self::ErrorWith(status, code, message) => {
                let error = ApiError::with_message(*code, message).with_status(*status);
                Some(refusal(&error, log))
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
    pub(crate) fn afterwards(self, mut answer: Response, log: u64) -> Response {
        match self {
            Self::DropAfterEffect => Response::headless(vec![ResponseStep::Reset]),
            Self::HangAfterEffect => Response::headless(vec![ResponseStep::Hang]),
            Self::ErrorAfterEffect(code) => refusal(&ApiError::new(code), log),
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
