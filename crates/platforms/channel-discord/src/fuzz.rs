//! Entry points for fuzzing the parser of frames, and for tests of its bounds. Not part of the API.

use serenity::model::application::Interaction;

use crate::wire::{Hello, Ready, SocketFrame, parse_message};

/// Reads a frame in every way in which one is read; `true` when it is one.
pub fn frame(text: &str) -> bool {
    let Ok(frame) = SocketFrame::parse(text) else {
        return false;
    };
    let read = [
        frame.message().is_ok_and(|message| message.parse().is_ok()),
        frame.content::<Interaction>().is_ok(),
        frame.content::<Hello>().is_ok(),
        frame.content::<Ready>().is_ok(),
    ];
    read.into_iter().any(|is_read| is_read)
}

/// Reads a message of the API.
pub fn message(text: &str) -> bool {
    parse_message(text).is_ok()
}
