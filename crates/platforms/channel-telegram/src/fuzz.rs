//! Entry point for fuzzing the parser of updates, and for tests of its bounds. Not part of the API.

use crate::author::Author;
use crate::wire::{ParsedUpdate, RawUpdate};

/// Reads an update; its number.
pub fn update(text: &str) -> Option<u32> {
    let received = ParsedUpdate::parse(&RawUpdate::peek(text)?);
    received.album();
    received.lane();
    received.message().and_then(Author::of);
    Some(received.id)
}
