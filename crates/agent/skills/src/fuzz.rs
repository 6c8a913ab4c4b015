//! Entry points to the parsers of skills, for fuzzing and for tests of their bounds. Not part of
//! the API.

use std::io::Cursor;
use std::path::PathBuf;

use crate::{archive, header};

/// Parses a `SKILL.md`; `true` if its header can be read and has a name or a description.
pub fn document(text: &str) -> bool {
    let document = header::SkillDocument::parse(text);
    match document.header {
        header::Header::Read(fields) => {
            fields.always();
            fields.setting("requires");
            fields.text("description").is_some() || fields.text("name").is_some()
        }
        header::Header::Missing | header::Header::Broken(_) | header::Header::TooLarge(_) => false,
    }
}

/// Reads a `.skill` file and discards its content.
///
/// # Errors
/// Returns the errors of [`Package::open`](crate::Package::open) for an archive.
pub fn archive(bytes: &[u8]) -> Result<(), crate::SkillsError> {
    archive::read_from(PathBuf::from("fuzz.skill"), Cursor::new(bytes)).map(drop)
}
