//! Standard output and standard error.
//!
//! Decision: all output is written through this module, with errors as values, because the print
//! macros end the process when the reader of a pipe goes away. Hidden characters are escaped here,
//! so that no command can forget to; JSON has its own escapes for them (`commands::json`).
//!
//! Standard error may be a log of the system, so it has no value of a secret in use, also not in the
//! message of a panic. Standard output belongs to the person who runs the command.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use nanobot_escape::visible;
use nanobot_runtime::{Secrets, without_secrets};

/// The secrets in use, once the configuration is loaded.
static SECRETS: OnceLock<Secrets> = OnceLock::new();

/// Hides these secrets on standard error for the rest of the process. The first call counts.
pub(crate) fn hide(secrets: &Secrets) {
    SECRETS.get_or_init(|| secrets.clone());
}

/// Reports panics like other errors, without secrets, for the rest of the process.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("no message");
        note(&bug(place.as_deref().unwrap_or("unknown"), message));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            note(&trace.to_string());
        }
    }));
}

/// Describes a panic. Its message may quote data, so whatever looks like a secret is hidden, too.
fn bug(place: &str, message: &str) -> String {
    let message = without_secrets(message);
    format!("nanobot: a bug at {place}: {message}\nPlease report it without private data.")
}

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
    drop(writeln!(
        io::stderr().lock(),
        "{}",
        shown(text, SECRETS.get())
    ));
}

fn shown(text: &str, secrets: Option<&Secrets>) -> String {
    match secrets {
        Some(secrets) => visible(&secrets.redact(text)),
        None => visible(text),
    }
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

    #[test]
    fn errors_and_panics_have_no_secret() {
        let secrets = Secrets::new(["correct horse battery".to_owned()]);
        let key = format!("sk-{}", "a1B2c3D4".repeat(5));
        let bug = bug("a.rs:1:2", &format!("{key} with correct horse battery"));
        let shown = shown(&bug, Some(&secrets));
        assert!(shown.starts_with("nanobot: a bug at a.rs:1:2: "), "{shown}");
        assert!(!shown.contains("a1B2c3D4"), "{shown}");
        assert!(!shown.contains("horse"), "{shown}");
    }
}
