//! Faults that can be scripted for one frame.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, answer};
use crate::connection::Role;
use crate::files;

/// A fault of one frame of a client, or of the handshake of a connection (`socket`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers `rate_limited` with this pause in seconds; the request has no effect.
    RateLimitedFor(u64),
    /// Answers with this code and its usual text; the request has no effect.
    Error(String),
    /// Answers with this code and text; the request has no effect.
    ErrorWith(String, String),
    /// Answers with these members and the `requestId`; the request has no effect.
    Answer(Value),
    /// Sends this text instead of an answer; the request has no effect.
    Garbage(String),
    /// Never answers; the request has no effect. For handshakes, too.
    Hang,
    /// Resets the connection; the request has no effect. For handshakes, too.
    Drop,
    /// Closes the connection with this code; the request has no effect.
    Close(u16),
    /// The request takes effect, then the connection is reset.
    DropAfterEffect,
    /// The request takes effect, then no answer comes.
    HangAfterEffect,
    /// The request takes effect, then the answer has this code. After a `send` the bridge does not
    /// know its id: a repetition is sent again, and WhatsApp shows it once.
    ErrorAfterEffect(String),
    /// The request takes effect, and the answer comes with
    /// [`WhatsAppFake::release_answers`](crate::WhatsAppFake::release_answers).
    Hold,
    /// Sends half of a piece as the last one; for `fetch`.
    Truncated,
    /// Refuses a handshake with this HTTP status.
    Status(u16),
}

/// The reaction to a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reaction {
    Answer(String),
    Hold(String),
    Nothing,
    Close(u16),
    Drop,
}

impl Fault {
    /// Returns a refusal by its code.
    #[must_use]
    pub fn error(code: &str) -> Self {
        Self::Error(code.to_owned())
    }

    /// Returns the reaction that replaces a request, or `None` if it is carried out.
    pub(crate) fn instead(&self, role: Option<Role>, request_id: Option<&str>) -> Option<Reaction> {
        let refuse = |error: ApiError| {
            let result = match role {
                Some(Role::Version1) => Ok(error.frame_of_version_1()),
                _ => Err(error),
            };
            Some(reaction(request_id, &result))
        };
        match self {
            Self::RateLimitedFor(seconds) => refuse(ApiError::rate_limited(*seconds)),
            Self::Error(code) => refuse(ApiError::new(code)),
            Self::ErrorWith(code, text) => refuse(ApiError::with_message(code, text)),
            Self::Answer(members) => {
                let mut frame = request_id.map_or(json!({}), |id| json!({"requestId": id}));
                for (name, value) in members.as_object().into_iter().flatten() {
                    set(&mut frame, name, value.clone());
                }
                Some(Reaction::Answer(frame.to_string()))
            }
            Self::Garbage(text) => Some(Reaction::Answer(text.clone())),
            Self::Hang => Some(Reaction::Nothing),
            Self::Drop => Some(Reaction::Drop),
            Self::Close(code) => Some(Reaction::Close(*code)),
            _ => None,
        }
    }

    /// Returns the reaction after a request took effect.
    pub(crate) fn afterwards(self, request_id: Option<&str>, result: ApiResult) -> Reaction {
        match self {
            Self::DropAfterEffect => Reaction::Drop,
            Self::HangAfterEffect => Reaction::Nothing,
            Self::ErrorAfterEffect(code) => reaction(request_id, &Err(ApiError::new(&code))),
            Self::Truncated => reaction(request_id, &result.map(files::truncated)),
            Self::Hold => match reaction(request_id, &result) {
                Reaction::Answer(text) => Reaction::Hold(text),
                other => other,
            },
            _ => reaction(request_id, &result),
        }
    }
}

/// Returns the usual reaction to a request.
pub(crate) fn reaction(request_id: Option<&str>, result: &ApiResult) -> Reaction {
    let frame = answer(request_id, result);
    frame.map_or(Reaction::Nothing, |frame| {
        Reaction::Answer(frame.to_string())
    })
}
