//! Faults that can be scripted for one call.

use bytes::Bytes;
use nanobot_testkit::http::{Response, ResponseStep};
use serde_json::Value;

use crate::api::{ApiError, ApiResult, TOO_MANY_CALLS, answer};

/// A fault of one call: of a command, of a download (`file.get`) or of the handshake of a
/// connection (`socket`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers that there are too many calls (45009); the command has no effect. WeCom names no
    /// pause.
    RateLimited,
    /// Answers with this code and its usual message; the command has no effect.
    Error(i64),
    /// Answers with this code and message; the command has no effect.
    ErrorWith(i64, String),
    /// Answers with these members instead of code and message; the command has no effect.
    Answer(Value),
    /// Sends this text instead of an answer; the command has no effect.
    Garbage(String),
    /// Never answers; the call has no effect. For commands, downloads and handshakes.
    Hang,
    /// Resets the connection; the call has no effect. For commands, downloads and handshakes.
    Drop,
    /// The command takes effect, then the connection is reset.
    DropAfterEffect,
    /// The command takes effect, then no answer comes.
    HangAfterEffect,
    /// The command takes effect, then the answer has this code.
    ErrorAfterEffect(i64),
    /// The command takes effect, and the answer comes with
    /// [`WeComFake::release_answers`](crate::WeComFake::release_answers).
    Hold,
    /// Answers with this status and a web page; for downloads and handshakes.
    Status(u16),
    /// Redirects to this address; for downloads.
    Redirect(String),
    /// Sends these bytes instead of the encrypted file; for downloads.
    Body(Bytes),
    /// The file ends before its announced length; for downloads.
    Truncated,
}

/// The reaction to a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reaction {
    Answer(String),
    Hold(String),
    Nothing,
    Drop,
}

impl Fault {
    /// Returns a refusal by its code.
    #[must_use]
    pub const fn error(code: i64) -> Self {
        Self::Error(code)
    }

    /// Returns the reaction that replaces a command, or `None` if it is carried out.
    pub(crate) fn instead(&self, req_id: &str, log: u64) -> Option<Reaction> {
        let refuse = |error| {
            let frame = answer(req_id, &Err(error), log);
            Some(Reaction::Answer(frame.to_string()))
        };
        match self {
            Self::RateLimited => refuse(ApiError::new(TOO_MANY_CALLS)),
            Self::Error(code) => refuse(ApiError::new(*code)),
            Self::ErrorWith(code, message) => refuse(ApiError::with_message(*code, message)),
            Self::Answer(members) => {
                let mut frame = serde_json::json!({"headers": {"req_id": req_id}});
                for (name, value) in members.as_object().into_iter().flatten() {
                    nanobot_testkit::json::set(&mut frame, name, value.clone());
                }
                Some(Reaction::Answer(frame.to_string()))
            }
            Self::Garbage(text) => Some(Reaction::Answer(text.clone())),
            Self::Hang => Some(Reaction::Nothing),
            Self::Drop => Some(Reaction::Drop),
            _ => None,
        }
    }

    /// Returns the reaction after a command took effect.
    pub(crate) fn afterwards(self, req_id: &str, result: &ApiResult, log: u64) -> Reaction {
        let frame = |result| answer(req_id, result, log).to_string();
        match self {
            Self::DropAfterEffect => Reaction::Drop,
            Self::HangAfterEffect => Reaction::Nothing,
            Self::ErrorAfterEffect(code) => Reaction::Answer(frame(&Err(ApiError::new(code)))),
            Self::Hold => Reaction::Hold(frame(result)),
            _ => Reaction::Answer(frame(result)),
        }
    }

    /// Returns the response to a download, instead of `response`.
    pub(crate) fn of_download(self, mut response: Response) -> Response {
        match self {
            Self::Hang => Response::headless(vec![ResponseStep::Hang]),
            Self::Drop => Response::headless(vec![ResponseStep::Reset]),
            Self::Status(status) => Response::bytes(status, "text/html", "<html>A page</html>"),
            Self::Redirect(to) => {
                Response::bytes(302, "text/plain", "").with_header("location", to)
            }
            Self::Body(bytes) => {
                let whole = Response::bytes(response.status, "application/octet-stream", bytes);
                response.framing = whole.framing;
                response.steps = whole.steps;
                response
            }
            Self::Truncated => {
                let half = |step| match step {
                    ResponseStep::Bytes(bytes) => {
                        ResponseStep::Bytes(bytes.slice(..bytes.len() / 2))
                    }
                    other => other,
                };
                response.steps = response.steps.into_iter().map(half).collect();
                response.steps.push(ResponseStep::Reset);
                response
            }
            _ => response,
        }
    }
}
