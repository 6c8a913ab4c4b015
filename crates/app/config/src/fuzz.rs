//! A door to the reader of `config.json` for fuzzing and for tests of its bounds. No part of the API.

use std::path::Path;

use crate::document;

/// Reads a file and, when it is one, renders it and reads that again.
pub fn document(bytes: &[u8]) -> bool {
    document::parse(Path::new("config.json"), bytes).is_ok()
}

/// Reads and renders a text as the editor of the file does.
pub fn scan(text: &str) {
    let Ok(node) = document::scan(text) else {
        return;
    };
    let rendered = node.render();
    assert!(
        document::scan(&rendered).is_ok(),
        "what was rendered cannot be read"
    );
}
