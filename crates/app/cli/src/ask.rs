//! Asking a person for something, a line each; what is secret is not shown while it is typed.
//!
//! Input that is no terminal is read the same way, so that scripts answer with one line each.
//!
//! Decision: questions are futures, so that whoever asks can listen for signals meanwhile. One that is
//! dropped leaves the terminal as it was.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::thread;

use tokio::sync::oneshot;

use crate::output;

/// Asks for a line. `None` when the input is at its end.
///
/// # Errors
/// When the input cannot be read.
pub(crate) async fn line(question: &str) -> io::Result<Option<String>> {
    output::note_piece(question);
    read().await
}

/// Asks for a line that nobody may read over a shoulder. `None` when the input is at its end.
///
/// # Errors
/// When the input cannot be read.
pub(crate) async fn secret(question: &str) -> io::Result<Option<String>> {
    // First, so that who answers at once is not shown either.
    let _silence = Silence::begin();
    output::note_piece(question);
    read().await
}

/// Waits for a line on a thread of its own, because nothing ends that wait but a line or the process.
async fn read() -> io::Result<Option<String>> {
    let (sender, line) = oneshot::channel();
    thread::spawn(move || {
        // Who asked may be gone.
        drop(sender.send(read_line()));
    });
    line.await.unwrap_or(Ok(None))
}

fn read_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let length = io::stdin().lock().read_line(&mut line)?;
    Ok((length > 0).then(|| line.trim().to_owned()))
}

/// Whether there is a person to ask.
pub(crate) fn is_person() -> bool {
    io::stdin().is_terminal()
}

/// A terminal that does not show what is typed, until this is dropped.
#[cfg(unix)]
struct Silence(nix::sys::termios::Termios);

#[cfg(unix)]
impl Silence {
    /// `None` where the input is no terminal.
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
impl Drop for Silence {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        if let Err(error) = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0) {
            tracing::debug!(%error, "the terminal's mode could not be put back");
        }
        // The end of the line was not shown either.
        output::note("");
    }
}

/// Terminals elsewhere show what is typed.
#[cfg(not(unix))]
struct Silence;

#[cfg(not(unix))]
impl Silence {
    fn begin() -> Option<Self> {
        None
    }
}
