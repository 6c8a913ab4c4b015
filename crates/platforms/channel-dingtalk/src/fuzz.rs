//! Entry points for fuzzing the parsers of frames and messages, and for tests of their bounds. Not
//! part of the API.

use nanobot_channel::json;

use crate::DingTalkConfig;
use crate::candidate::message_candidate;
use crate::content::pieces;
use crate::frame::Frame;
use crate::wire::{BotMessage, MessageOrigin};

/// Reads a frame and the message in it; `true` if it is a message for the assistant.
pub fn frame(text: &str) -> bool {
    Frame::parse(text).is_ok_and(|frame| message(&frame.data))
}

/// Reads a message; `true` if it is one for the assistant.
pub fn message(payload: &str) -> bool {
    MessageOrigin::peek(payload);
    let message: Option<BotMessage> = json::from_str(payload).ok();
    let config = DingTalkConfig::default();
    message.is_some_and(|message| message_candidate("dingtalk", &config, &message).is_some())
}

/// Reads the content of a message of any type. Returns the number of its pieces.
pub fn content(kind: &str, text: &str, content: &str) -> usize {
    let message = BotMessage {
        kind: kind.to_owned(),
        text: json::from_str(text).unwrap_or_default(),
        content: json::from_str(content).unwrap_or_default(),
        ..BotMessage::default()
    };
    pieces(&message).len()
}
