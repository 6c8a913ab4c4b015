//! A door to the reader of updates for fuzzing and for tests of its bounds. No part of the API.

use crate::author::Author;
use crate::update::{RawUpdate, Received};

/// Reads an update; its number.
pub fn update(text: &str) -> Option<u32> {
    let received = Received::read(&RawUpdate::find(text)?);
    received.album();
    received.lane();
    received.message().and_then(Author::of);
    Some(received.id)
}
