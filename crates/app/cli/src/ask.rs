//! Questions to the user, each answered with one line. Secrets are not echoed.
//!
//! Input that is not a terminal is read the same way, so that scripts answer with one line each.
//!
//! Decision: questions are futures, so that the caller can listen for signals at the same time.
//! Dropping one restores the terminal.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::thread;

use tokio::sync::oneshot;

use crate::output;

/// Asks for a line; `None` at the end of the input.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub(crate) async fn line(question: &str) -> io::Result<Option<String>> {
    output::note_piece(question);
    answer(question).await
}

/// Asks for a line without echoing it; `None` at the end of the input.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub(crate) async fn secret(question: &str) -> io::Result<Option<String>> {
    // Turn echo off before the question is shown, so that a quick answer is not echoed.
    let _silence = EchoOff::begin();
    output::note_piece(question);
    answer(question).await
}

/// Reads a line on a thread of its own: only a line or the end of the process ends that wait.
async fn read() -> io::Result<Option<String>> {
    let (sender, line) = oneshot::channel();
    thread::spawn(move || {
        // The receiver may have been dropped.
        drop(sender.send(read_line()));
    });
    line.await.unwrap_or(Ok(None))
}

/// Reads the answer to a question that was shown, and ends its line.
async fn answer(question: &str) -> io::Result<Option<String>> {
    let answer = read().await;
    // A terminal shows the newline of the answer; a pipe does not.
    if !can_ask() && !question.is_empty() && !question.ends_with('\n') {
        output::note("");
    }
    answer
}

fn read_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let length = io::stdin().lock().read_line(&mut line)?;
    Ok((length > 0).then(|| line.trim().to_owned()))
}

/// `true` if a user can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Turns the terminal's echo off until it is dropped.
#[cfg(unix)]
struct EchoOff(nix::sys::termios::Termios);

#[cfg(unix)]
impl EchoOff {
    /// Returns `None` if the input is not a terminal.
    fn begin() -> Option<Self> {
        use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
        let input = io::stdin();
        let before = tcgetattr(&input).ok()?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&input, SetArg::TCSAFLUSH, &silent).ok()?;
        Some(Self(before))
    }
}

#[cfg(unix)]
impl Drop for EchoOff {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        if let Err(error) = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0) {
            tracing::debug!(%error, "the terminal's mode could not be put back");
        }
        // The newline was not echoed either.
        output::note("");
    }
}

/// On other systems echo stays on.
#[cfg(not(unix))]
struct EchoOff;

#[cfg(not(unix))]
impl EchoOff {
    fn begin() -> Option<Self> {
        None
    }
}
