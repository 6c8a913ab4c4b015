//! Frames of the bridge: a JSON object in each text frame.

use nanobot_channel::{Value, json};

use crate::state::State;
use crate::wire::{given, text};

/// Largest frame, in bytes.
pub(crate) const FRAME_LIMIT: usize = 1 << 20;
/// Longest code for a link that is shown, in bytes.
const CODE_LIMIT: usize = 4096;

/// The version of the protocol that a bridge speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// That of the Python program: texts without confirmations.
    One,
    /// That of `PROTOCOL.md`.
    #[default]
    Two,
}

/// A frame from the bridge.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// The bridge accepted the token, and speaks version 2.
    Ready(State),
    /// The state of the linked device changed.
    Status(State),
    /// A code that links a device.
    Code(String),
    /// A message, not parsed yet.
    Message(Value),
    /// The answer to a request.
    Answer(Answer),
    /// Anything else.
    Other,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The id of the request; version 1 has none.
    pub(crate) request_id: Option<String>,
    pub(crate) is_error: bool,
    pub(crate) body: Value,
}

impl Frame {
    /// Reads a frame.
    ///
    /// # Errors
    /// The reason why it is no object with a type, or too large.
    pub(crate) fn parse(frame: &str) -> Result<Self, String> {
        if frame.len() > FRAME_LIMIT {
            return Err("a frame is larger than 1 MiB".to_owned());
        }
        let body: Value =
            json::from_str(frame).map_err(|_unreadable| "a frame is no JSON".to_owned())?;
        let Some(kind) = given(&body, "type") else {
            return Err("a frame has no type".to_owned());
        };
        Ok(match kind {
            "ready" => Self::Ready(State::read(&body)),
            "status" => Self::Status(State::read(&body)),
            "qr" => Self::Code(text(&body, "qr").chars().take(CODE_LIMIT).collect()),
            "message" => Self::Message(body),
            "sent" | "chunk" | "uploaded" | "error" => Self::Answer(Answer {
                request_id: given(&body, "requestId").map(str::to_owned),
                is_error: kind == "error",
                body,
            }),
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_are_told_apart() {
        let answer = |request_id: Option<&str>, is_error, body| {
            Frame::Answer(Answer {
                request_id: request_id.map(str::to_owned),
                is_error,
                body,
            })
        };
        let state = State::read(&json!({"status": "connected"}));
        let message = json!({"type": "message", "id": 5});
        let sent = json!({"type": "sent", "requestId": "9"});
        let old = json!({"type": "error", "requestId": 9});
        let table = [
            (
                json!({"type": "ready", "status": "connected"}),
                Frame::Ready(state.clone()),
            ),
            (
                json!({"type": "status", "status": "connected"}),
                Frame::Status(state),
            ),
            (
                json!({"type": "qr", "qr": "2@x"}),
                Frame::Code("2@x".to_owned()),
            ),
            (message.clone(), Frame::Message(message)),
            (sent.clone(), answer(Some("9"), false, sent)),
            (old.clone(), answer(None, true, old)),
            (json!({"type": "of_tomorrow"}), Frame::Other),
        ];
        for (frame, expected) in table {
            assert_eq!(
                Frame::parse(&frame.to_string()).unwrap(),
                expected,
                "{frame}"
            );
        }
        let large = json!({"type": "x", "y": "x".repeat(FRAME_LIMIT)}).to_string();
        let deep = "[".repeat(10_000);
        for frame in ["", "5", "[]", "{}", r#"{"type":5}"#, &deep, &large] {
            assert!(Frame::parse(frame).is_err(), "{}", frame.len());
        }
    }
}
