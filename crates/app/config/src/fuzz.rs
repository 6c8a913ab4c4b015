//! Access to the parser of `config.json` for fuzzing and for tests of its bounds. Not part of the
//! API.

use std::path::Path;

use crate::document;

/// Parses a file and returns `true` if it is valid.
pub fn document(bytes: &[u8]) -> bool {
    document::parse(Path::new("config.json"), bytes).is_ok()
}

/// Parses and renders a text as a save does, and checks that the result can be parsed again.
pub fn scan(text: &str) {
    let Ok(node) = document::scan(text) else {
        return;
    };
    let rendered = node.render();
    assert!(
        document::scan(&rendered).is_ok(),
        "rendered text cannot be parsed"
    );
}
