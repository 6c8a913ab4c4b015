//! Access to the line parser for fuzzing and for tests of its limits. Not part of the API.

use crate::line::{Line, message_entry, parse, write_message};

/// Parses a line, writes the message in it, if there is one, and parses the result.
pub fn line(bytes: &[u8]) {
    let Line::Message(fields) = parse(bytes).line else {
        return;
    };
    let entry = message_entry(fields);
    let mut written = Vec::new();
    if write_message(&mut written, &entry, false).is_ok() {
        let line = parse(written.trim_ascii_end()).line;
        assert!(
            matches!(line, Line::Message(_)),
            "what was written is no message"
        );
    }
}
