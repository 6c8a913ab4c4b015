//! Entry points for fuzzing the parsers of packets and events, and for tests of their bounds. Not
//! part of the API.

use nanobot_channel::{Value, json};

use crate::candidate::candidate;
use crate::engine::{EngineMessage, EnginePacket};
use crate::event::{Change, SocketNews};
use crate::mention::mentions_agent;
use crate::packet::{Packet, Serializer};
use crate::target::Target;
use crate::wire::{Batch, ChatMessage, PanelPage, read_panels, read_sessions};

/// Reads a text frame and all that is in it; `true` if it is an event of use.
pub fn text_frame(frame: &str) -> bool {
    match EnginePacket::parse(EngineMessage::Text(frame.to_owned())) {
        EnginePacket::Message(message) => read(Serializer::Json, &message),
        _ => false,
    }
}

/// Reads a binary frame and all that is in it; `true` if it is an event of use.
pub fn binary_frame(frame: &[u8]) -> bool {
    read(
        Serializer::MsgPack,
        &EngineMessage::Binary(frame.to_owned()),
    )
}

/// Reads the argument of an event of this name. Returns the number of new messages in it.
pub fn event(name: &str, argument: Value) -> usize {
    let batch = match SocketNews::read(name, argument) {
        Some(SocketNews::Batch(_, batch)) => batch,
        Some(SocketNews::Panel(target, event)) => Batch {
            target,
            events: vec![event],
            ..Batch::default()
        },
        Some(SocketNews::Inbox { entry, .. }) => {
            message(&ChatMessage::read_inbox(&entry));
            return 1;
        }
        None => return 0,
    };
    let added = batch
        .events
        .iter()
        .filter(|event| match Change::read(event) {
            Some(Change::Added(added)) => {
                message(&added);
                true
            }
            _ => false,
        });
    added.count()
}

/// Reads the data of an answer of the API in every way. Returns the number of entries.
pub fn answer(text: &str) -> usize {
    let Ok(data) = json::from_str::<Value>(text) else {
        return 0;
    };
    let page = PanelPage::read(&data);
    let batches = Batch::read_all(&data);
    let events = batches.iter().map(|batch| batch.events.len());
    page.messages.len()
        + read_sessions(&data).len()
        + read_panels(&data).len()
        + events.sum::<usize>()
}

fn read(serializer: Serializer, message: &EngineMessage) -> bool {
    match serializer.read(message) {
        Ok(Packet::Event { name, args }) => {
            let argument = args.into_iter().next().unwrap_or_default();
            event(&name, argument) > 0
        }
        _ => false,
    }
}

fn message(message: &ChatMessage) {
    let target = Target::Panel("panel".to_owned());
    let is_mentioned = mentions_agent(message, "agent");
    let earlier = [message.clone()];
    candidate("agent", &target, &earlier, message, is_mentioned);
}
