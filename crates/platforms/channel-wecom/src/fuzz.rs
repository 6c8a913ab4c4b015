//! Entry points for fuzzing the parsers of frames, messages and files, and for tests of their
//! bounds. Not part of the API.

use nanobot_channel::json;

use crate::candidate::message_candidate;
use crate::content::pieces;
use crate::crypto;
use crate::disposition;
use crate::frame::{Callback, Frame, MESSAGE, event_type};

/// Reads a frame and the message in it; `true` if it is a message for the assistant.
pub fn frame(text: &str) -> bool {
    match Frame::parse(text) {
        Ok(Frame::Callback(callback)) => {
            event_type(&callback.body);
            message_candidate(&callback).is_some()
        }
        Ok(Frame::Answer { answer, .. }) => answer.judged().is_err_and(|_| false),
        Ok(Frame::Other) | Err(_) => false,
    }
}

/// Reads a message; `true` if it is one for the assistant.
pub fn message(body: &str) -> bool {
    let callback = Callback {
        cmd: MESSAGE.to_owned(),
        req_id: "r".to_owned(),
        body: json::from_str(body).unwrap_or_default(),
    };
    message_candidate(&callback).is_some()
}

/// Reads the content of a message. Returns the number of its pieces.
pub fn content(body: &str) -> usize {
    pieces(&json::from_str(body).unwrap_or_default(), true).len()
}

/// Decrypts a file; returns the length of its content.
pub fn decrypt(bytes: &[u8], key: &str) -> Option<usize> {
    crypto::decrypt(bytes.to_vec(), key).map(|content| content.len())
}

/// Reads the name of a file from a header.
pub fn file_name(header: &str) -> Option<String> {
    disposition::file_name(header)
}
