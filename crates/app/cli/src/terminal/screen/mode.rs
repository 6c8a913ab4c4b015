//! The mode of the terminal during a conversation: keys arrive one by one and are not echoed.

use std::io;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::output;

/// Enables bracketed paste.
const BEGIN_BRACKETED_PASTE: &str = "\u{1b}[?2004h";
/// Disables bracketed paste, and shows the cursor in case it is hidden.
const END_BRACKETED_PASTE: &str = "\u{1b}[?2004l\u{1b}[?25h";

/// A terminal in raw mode, with the mode that has to be restored.
#[derive(Debug)]
pub(in crate::terminal) struct RawMode {
    #[cfg(unix)]
    original: Option<nix::sys::termios::Termios>,
}

impl RawMode {
    /// Enters raw mode.
    ///
    /// # Errors
    /// Returns an error if standard input is no terminal that supports it.
    pub(in crate::terminal) fn enter() -> io::Result<Self> {
        let mode = Self {
            #[cfg(unix)]
            original: nix::sys::termios::tcgetattr(io::stdin()).ok(),
        };
        mode.resume()?;
        Ok(mode)
    }

    /// Restores the mode. Best effort: the terminal may be gone.
    pub(in crate::terminal) fn restore(&self) {
        drop(output::write_verbatim(END_BRACKETED_PASTE));
        if let Err(error) = disable_raw_mode() {
            tracing::debug!(%error, "the terminal's mode could not be restored");
        }
        #[cfg(unix)]
        if let Some(original) = &self.original {
            set(original);
        }
    }

    /// Enters raw mode again after [`restore`](Self::restore).
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(in crate::terminal) fn resume(&self) -> io::Result<()> {
        enable_raw_mode()?;
        #[cfg(unix)]
        if let Ok(mut raw) = nix::sys::termios::tcgetattr(io::stdin()) {
            // Lines of the log begin at the left edge.
            raw.output_flags
                .insert(nix::sys::termios::OutputFlags::OPOST);
            set(&raw);
        }
        output::write_verbatim(BEGIN_BRACKETED_PASTE)
    }

    /// Suspends the program, as Ctrl-Z does, with the original mode.
    ///
    /// # Errors
    /// Returns an error if raw mode cannot be entered again.
    #[cfg(unix)]
    pub(in crate::terminal) fn suspend(&self) -> io::Result<()> {
        self.restore();
        if let Err(error) = nix::sys::signal::raise(nix::sys::signal::SIGTSTP) {
            tracing::debug!(%error, "the program could not be stopped");
        }
        self.resume()
    }

    /// Does nothing: this system cannot suspend programs.
    ///
    /// # Errors
    /// Never fails on this system.
    #[cfg(not(unix))]
    pub(in crate::terminal) fn suspend(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn set(termios: &nix::sys::termios::Termios) {
    use nix::sys::termios::{SetArg, tcsetattr};
    if let Err(error) = tcsetattr(io::stdin(), SetArg::TCSANOW, termios) {
        tracing::debug!(%error, "the terminal's mode could not be changed");
    }
}
