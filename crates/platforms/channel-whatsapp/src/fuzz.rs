//! Entry points for fuzzing the parsers of frames and messages, and for tests of their bounds. Not
//! part of the API.

use nanobot_channel::{Value, json};

use crate::candidate::message_candidate;
use crate::content::pieces;
use crate::error::{from_answer, from_version_1};
use crate::frame::{Frame, Version};
use crate::state::{Account, State};

fn versions() -> [Version; 2] {
    [Version::One, Version::Two]
}

/// Reads a frame and what is in it; `true` if it is a message for the assistant.
pub fn frame(text: &str) -> bool {
    match Frame::parse(text) {
        Ok(Frame::Message(body)) => is_message(&body),
        Ok(Frame::Answer(answer)) => {
            let errors = [from_answer(&answer.body), from_version_1(&answer.body)];
            errors.iter().any(|error| error.to_string().is_empty())
        }
        Ok(Frame::Ready(state) | Frame::Status(state)) => {
            let account = state.account.unwrap_or_default();
            state.link.trouble().is_ok() && account.shown().is_empty()
        }
        Ok(Frame::Code(_) | Frame::Other) | Err(_) => false,
    }
}

/// Reads a message; `true` if it is one for the assistant.
pub fn message(body: &str) -> bool {
    is_message(&json::from_str(body).unwrap_or_default())
}

/// Reads the content of a message of a bridge whose account is in `report`. Returns the number of
/// its pieces in either version.
pub fn content(body: &str, report: &str) -> usize {
    let body = json::from_str(body).unwrap_or_default();
    let state = State::read(&json::from_str(report).unwrap_or_default());
    let account = state.account.unwrap_or_default();
    let counts = versions().map(|version| pieces(&body, version, &account).len());
    counts.into_iter().max().unwrap_or_default()
}

fn is_message(body: &Value) -> bool {
    let account = Account::default();
    let read = versions().map(|version| message_candidate(body, version, &account).is_some());
    read.contains(&true)
}
