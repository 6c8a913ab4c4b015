//! Styles of text at a terminal, as escape sequences.

pub(super) const RESET: &str = "\u{1b}[0m";
pub(super) const BOLD: &str = "\u{1b}[1m";
pub(super) const DIM: &str = "\u{1b}[2m";
pub(super) const ITALIC: &str = "\u{1b}[3m";
pub(super) const UNDERLINE: &str = "\u{1b}[4m";
pub(super) const STRIKE: &str = "\u{1b}[9m";
pub(super) const CYAN: &str = "\u{1b}[36m";

/// Wraps text in a style.
pub(super) fn styled(style: &str, text: &str) -> String {
    format!("{style}{text}{RESET}")
}
