//! Standard output and standard error.
//!
//! Decision: everything is written through here, with errors as values, because the print macros end
//! the process when a reader of a pipe goes away. Hidden characters are escaped here, so that no
//! command can forget to; JSON has its own escapes for them (`commands::json`).

use std::io::{self, IsTerminal as _, Write as _};

use nanobot_escape::visible;

/// Writes text to standard output at once.
///
/// # Errors
/// As the system says.
pub(crate) fn write(text: &str) -> io::Result<()> {
    write_verbatim(&visible(text))
}

/// Writes text to standard output at once, to the byte: for programs, and for text whose hidden
/// characters are escaped.
///
/// # Errors
/// As the system says.
pub(crate) fn write_verbatim(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard output at once.
///
/// # Errors
/// As the system says.
pub(crate) fn line(text: &str) -> io::Result<()> {
    write(&format!("{text}\n"))
}

/// Writes a line to standard error. A standard error that nobody reads is no reason to stop.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", visible(text)));
}

/// Writes text to standard error, without ending the line.
pub(crate) fn note_piece(text: &str) {
    let mut error = io::stderr().lock();
    drop(error.write_all(text.as_bytes()));
    drop(error.flush());
}

/// Whether standard output is a terminal that wants styles.
pub(crate) fn is_coloured() -> bool {
    is_terminal()
        && std::env::var_os("NO_COLOR").is_none()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard input and output are a terminal, so that a person can be asked.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && is_terminal()
}

/// Text without the characters that steer a terminal, and with hidden ones escaped. Text of a model, a
/// file or another person may move no cursor and rename no window.
pub(crate) fn harmless(text: &str) -> String {
    nanobot_escape::harmless(text)
}
