//! Entry points for fuzzing the parser of envelopes, and for tests of its bounds. Not part of the
//! API.

use nanobot_channel::{Value, json};

use crate::SlackConfig;
use crate::candidate::{Identity, command_candidate, message_candidate};
use crate::interaction::interaction_candidate;
use crate::text::{escaped, head, readable, strip_mention};
use crate::wire::{PayloadOrigin, SlackEvent, SocketFrame};

/// Reads an envelope in every way in which one is read; `true` when something is said in it.
pub fn envelope(text: &str) -> bool {
    let Ok(frame) = SocketFrame::parse(text) else {
        return false;
    };
    PayloadOrigin::peek(frame.payload());
    let Ok(payload) = json::from_str::<Value>(frame.payload()) else {
        return false;
    };
    let me = Identity {
        user: "U1".to_owned(),
        name: "bot".to_owned(),
        team: "T".to_owned(),
    };
    let event: Value = payload.get("event").cloned().unwrap_or_default();
    let event = serde_json::from_value::<SlackEvent>(event).ok();
    let event = event.and_then(|event| message_candidate(&SlackConfig::default(), &me, &event));
    let interaction = serde_json::from_value(payload.clone()).ok();
    let command = serde_json::from_value(payload).ok();
    let command = command.and_then(|command| command_candidate(command, &[]));
    event
        .or_else(|| interaction.and_then(interaction_candidate))
        .or(command)
        .is_some()
}

/// Reads what a person wrote.
pub fn text(text: &str) -> usize {
    let read = readable(&strip_mention(text, "U1"));
    escaped(head(&read, 1000)).len()
}
