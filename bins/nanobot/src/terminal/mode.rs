//! The mode of the terminal, to be put back when the program ends while a line is being edited.

use crate::output;

/// Ends what the line editor began: pastes are no longer marked.
const END_BRACKETED_PASTE: &str = "\u{1b}[?2004l\r";

/// The mode a terminal had when the program started.
#[derive(Debug)]
pub(super) struct SavedMode {
    #[cfg(unix)]
    termios: Option<nix::sys::termios::Termios>,
}

impl SavedMode {
    /// Remembers the mode of standard input.
    pub(super) fn save() -> Self {
        Self {
            #[cfg(unix)]
            termios: nix::sys::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }

    /// Puts it back. Best effort: the terminal may be gone.
    pub(super) fn restore(&self) {
        drop(output::write(END_BRACKETED_PASTE));
        #[cfg(unix)]
        if let Some(termios) = &self.termios {
            use nix::sys::termios::{SetArg, tcsetattr};
            let restored = tcsetattr(std::io::stdin(), SetArg::TCSANOW, termios);
            if let Err(error) = restored {
                tracing::debug!(%error, "the terminal's mode could not be put back");
            }
        }
    }
}
