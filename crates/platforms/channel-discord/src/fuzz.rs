//! A door to the reader of frames for fuzzing and for tests of its bounds. No part of the API.

use serenity::model::application::Interaction;

use crate::frame::{GatewayFrame, Hello, Ready, read_message};

/// Reads a frame in every way in which one is read; `true` when it is one.
pub fn frame(text: &str) -> bool {
    let Ok(frame) = GatewayFrame::read(text) else {
        return false;
    };
    let read = [
        frame.message().is_ok_and(|message| message.read().is_ok()),
        frame.content::<Interaction>().is_ok(),
        frame.content::<Hello>().is_ok(),
        frame.content::<Ready>().is_ok(),
    ];
    read.into_iter().any(|is_read| is_read)
}

/// Reads a message of the API.
pub fn message(text: &str) -> bool {
    read_message(text).is_ok()
}
