//! Entry points for fuzzing the parsers of frames and messages, and for tests of their bounds. Not
//! part of the API.

use nanobot_channel::json;

use crate::candidate::message_candidate;
use crate::content::pieces;
use crate::face::readable;
use crate::frame::Frame;
use crate::wire::{EventKind, Message, MessageOrigin};

/// Reads a frame and the message in it; `true` if it is a message for the assistant.
pub fn frame(text: &str) -> bool {
    Frame::parse(text).is_ok_and(|frame| {
        frame.number();
        message(frame.event(), frame.payload())
    })
}

/// Reads the message of an event; `true` if it is one for the assistant.
pub fn message(event: &str, payload: &str) -> bool {
    MessageOrigin::peek(payload);
    let message: Option<Message> = json::from_str(payload).ok();
    let kind = EventKind::new(event);
    kind.zip(message)
        .is_some_and(|(kind, message)| message_candidate(kind, &message).is_some())
}

/// Reads the content of a message. Returns the number of its pieces.
pub fn content(payload: &str) -> usize {
    let message: Option<Message> = json::from_str(payload).ok();
    message.map_or(0, |message| pieces(&message, &["B"]).len())
}

/// Reads the faces and mentions of a text.
pub fn text(text: &str) -> String {
    readable(text, &["B"])
}
