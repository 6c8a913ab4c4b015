//! A door to the reader of envelopes for fuzzing and for tests of its bounds. No part of the API.

use nanobot_channel::{Value, json};

use crate::SlackConfig;
use crate::candidate::{Identity, of_command, of_event, of_interaction};
use crate::text::{escaped, head, readable, without_mention};
use crate::wire::{PayloadOrigin, SlackEvent, SocketFrame};

/// Reads an envelope in every way in which one is read; `true` when something is said in it.
pub fn envelope(text: &str) -> bool {
    let Ok(frame) = SocketFrame::find(text) else {
        return false;
    };
    PayloadOrigin::find(frame.payload());
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
    let event = event.and_then(|event| of_event(&SlackConfig::default(), &me, &event));
    let interaction = serde_json::from_value(payload.clone()).ok();
    let command = serde_json::from_value(payload).ok();
    let command = command.and_then(|command| of_command(command, &[]));
    event
        .or_else(|| interaction.and_then(of_interaction))
        .or(command)
        .is_some()
}

/// Reads what a person wrote.
pub fn text(text: &str) -> usize {
    let read = readable(&without_mention(text, "U1"));
    escaped(head(&read, 1000)).len()
}
