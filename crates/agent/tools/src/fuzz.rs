//! A door to private readers for fuzzing and for tests of their bounds. No part of the API.

use crate::{exec, files, web};

/// Takes a command apart; `true` when it can be read.
pub fn command(text: &str) -> bool {
    exec::is_readable(text)
}

/// Looks for `wanted` in `content` as `edit_file` does, and explains its absence.
pub fn locate(content: &str, wanted: &str) -> (usize, String) {
    files::locate_and_explain(content, wanted)
}

/// Counts the results on a page of the search that has no API.
pub fn search_page(page: &str) -> usize {
    web::results_on(page).len()
}
