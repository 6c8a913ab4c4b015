//! Entry points for fuzzing the parsers of frames and events, and for tests of their bounds. Not
//! part of the API.

use nanobot_channel::json;

use crate::FeishuConfig;
use crate::candidate::{Identity, message_candidate};
use crate::content::{parse_content, text_of};
use crate::fragment::{Collected, Fragments};
use crate::frame::Frame;
use crate::interaction::press_candidate;
use crate::mention::Mentions;
use crate::wire::{Event, EventOrigin};

/// Reads a frame and the event in it; `true` when something is said in it.
pub fn frame(bytes: &[u8]) -> bool {
    let Ok(mut frame) = Frame::parse(bytes) else {
        return false;
    };
    let payload = frame.take_payload();
    let sum = frame.number("sum").unwrap_or(1);
    let seq = frame.number("seq").unwrap_or(0);
    let mut fragments = Fragments::default();
    match fragments.add(frame.header("message_id"), sum, seq, payload) {
        Collected::Whole(payload) => event(&payload),
        Collected::Partial | Collected::Dropped(_) => false,
    }
}

/// Reads an event in every way in which one is read; `true` when something is said in it.
pub fn event(payload: &[u8]) -> bool {
    EventOrigin::peek(payload);
    let me = Identity {
        bot: "ou_bot".to_owned(),
        name: "bot".to_owned(),
    };
    let config = FeishuConfig::default();
    let message = json::from_slice(payload).ok();
    let message =
        message.and_then(|Event { event, .. }| message_candidate("feishu", &config, &me, event));
    let press = json::from_slice(payload).ok();
    let press = press.and_then(|Event { header, event }| {
        press_candidate("feishu", &config, header.event_id, event)
    });
    message.or(press).is_some()
}

/// Reads the content of a message of any type.
pub fn content(kind: &str, content: &str) -> usize {
    let mentions = Mentions {
        list: &[],
        bot: "ou_bot",
    };
    text_of(kind, &parse_content(content), mentions).len()
}
