//! Entry points to private parsers, for fuzzing and for tests of their bounds. Not part of the API.

use crate::{exec, files, web};

/// Parses a command; `true` if it can be parsed.
pub fn command(text: &str) -> bool {
    exec::is_readable(text)
}

/// Searches for `wanted` in `content` as `edit_file` does. Returns the number of matches and the
/// explanation of its absence.
pub fn locate(content: &str, wanted: &str) -> (usize, String) {
    files::locate_and_explain(content, wanted)
}

/// Parses a DuckDuckGo result page, and returns the length of the listed results in bytes.
pub fn search_page(page: &str) -> usize {
    web::results_on(page).len()
}
