//! A door to the readers of skills for fuzzing and for tests of their bounds. No part of the API.

use std::io::Cursor;
use std::path::PathBuf;

use crate::{archive, header};

/// Reads a `SKILL.md`; `true` when it has a readable header.
pub fn document(text: &str) -> bool {
    let document = header::Document::parse(text);
    match document.header {
        header::Header::Read(fields) => {
            fields.always();
            fields.setting("requires");
            fields.text("description").is_some() || fields.text("name").is_some()
        }
        header::Header::Missing | header::Header::Broken(_) | header::Header::TooLarge(_) => false,
    }
}

/// Reads a `.skill` file; the bytes of all its files, or why it is refused.
///
/// # Errors
/// As installing.
pub fn archive(bytes: &[u8]) -> Result<(), crate::SkillsError> {
    archive::read_from(PathBuf::from("fuzz.skill"), Cursor::new(bytes)).map(drop)
}
