//! Standard output and standard error.
//!
//! Decision: all output is written through this module, with errors as values, because the print
//! macros end the process when the reader of a pipe goes away. Hidden characters are escaped here,
//! so that no command can forget to; JSON has its own escapes for them (`commands::json`).

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write as _};

use nanobot_escape::visible;

/// Writes text to standard output and flushes it.
///
/// # Errors
/// Returns the error of the system.
pub(crate) fn write(text: &str) -> io::Result<()> {
    write_verbatim(&visible(text))
}

/// Writes text to standard output without escaping it, and flushes it: for programs, and for text
/// whose hidden characters are already escaped.
///
/// # Errors
/// Returns the error of the system.
pub(crate) fn write_verbatim(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard output and flushes it.
///
/// # Errors
/// Returns the error of the system.
pub(crate) fn line(text: &str) -> io::Result<()> {
    write(&format!("{text}\n"))
}

/// Writes a line to standard error. Ignores errors: a closed standard error is no reason to stop.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", visible(text)));
}

/// Writes text to standard error, without a newline.
pub(crate) fn note_piece(text: &str) {
    let mut error = io::stderr().lock();
    drop(error.write_all(text.as_bytes()));
    drop(error.flush());
}

/// Styles that standard output shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Palette {
    /// Attributes and colours.
    #[default]
    Colours,
    /// Bold, dim, italic, underlined and struck text without colours.
    Attributes,
    /// No escape sequences.
    Plain,
}

impl Palette {
    /// Returns the palette of standard output. `NO_COLOR` removes the colours, but not the other
    /// styles; a pipe and a terminal of the type `dumb` show neither.
    pub(crate) fn of_output() -> Self {
        Self::of(
            is_terminal(),
            std::env::var_os("NO_COLOR").as_deref(),
            std::env::var_os("TERM").as_deref(),
        )
    }

    /// Returns the palette of standard error, by the same rules.
    pub(crate) fn of_errors() -> Self {
        Self::of(
            io::stderr().is_terminal(),
            std::env::var_os("NO_COLOR").as_deref(),
            std::env::var_os("TERM").as_deref(),
        )
    }

    /// An empty `NO_COLOR` counts as unset (<https://no-color.org>).
    fn of(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        if !is_terminal || term.is_some_and(|term| term == "dumb") {
            Self::Plain
        } else if no_color.is_some_and(|value| !value.is_empty()) {
            Self::Attributes
        } else {
            Self::Colours
        }
    }
}

/// `true` if the terminal understands no control sequences.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// `true` if standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns the columns and rows of the terminal; `None` if no standard stream is one.
///
/// `crossterm::terminal::size` would start the program `tput` where there is no terminal.
pub(crate) fn screen_size() -> Option<(u16, u16)> {
    terminal_size::terminal_size().map(|(width, height)| (width.0, height.0))
}

/// `true` if standard input and output are a terminal, so that the user can be asked.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && is_terminal()
}

/// Sanitizes text for a terminal: removes control characters and escapes hidden ones. Text of a
/// model, a file or another person must not move the cursor or rename the window.
pub(crate) fn sanitize(text: &str) -> String {
    nanobot_escape::sanitize(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn palette_follows_terminal_and_environment() {
        let table = [
            (true, None, None, Palette::Colours),
            (true, None, Some("xterm"), Palette::Colours),
            (true, Some(""), Some("xterm"), Palette::Colours),
            (true, Some("1"), Some("xterm"), Palette::Attributes),
            (true, None, Some("dumb"), Palette::Plain),
            (true, Some("1"), Some("dumb"), Palette::Plain),
            (false, None, Some("xterm"), Palette::Plain),
        ];
        for (is_terminal, no_color, term, expected) in table {
            let palette = Palette::of(is_terminal, no_color.map(OsStr::new), term.map(OsStr::new));
            assert_eq!(palette, expected, "{is_terminal} {no_color:?} {term:?}");
        }
    }
}
