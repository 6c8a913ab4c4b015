//! The mode of the terminal during a conversation.
//!
//! Decision: between two lines the terminal stays in the line editor's mode. The original mode
//! would echo what is typed then, and consume Ctrl-C and Ctrl-D before the next line could read
//! them.

use crate::output;

/// Enables bracketed paste, which the line editor uses.
#[cfg(unix)]
const BEGIN_BRACKETED_PASTE: &str = "\u{1b}[?2004h";
/// Disables bracketed paste, which the line editor enabled.
const END_BRACKETED_PASTE: &str = "\u{1b}[?2004l\r";

/// The terminal's mode at the start of the program, to be restored at the end.
#[derive(Clone, Debug)]
pub(super) struct SavedMode {
    #[cfg(unix)]
    termios: Option<nix::sys::termios::Termios>,
}

impl SavedMode {
    /// Saves the mode of standard input.
    pub(super) fn save() -> Self {
        Self {
            #[cfg(unix)]
            termios: nix::sys::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }

    /// Restores the mode. Best effort: the terminal may be gone.
    pub(super) fn restore(&self) {
        drop(output::write(END_BRACKETED_PASTE));
        #[cfg(unix)]
        if let Some(termios) = &self.termios {
            set(termios);
        }
    }

    /// Holds keys until they are read: they are not echoed, and none has a special meaning.
    pub(super) fn hold_keys(&self) {
        #[cfg(unix)]
        if let Some(termios) = &self.termios {
            use nix::sys::termios::{InputFlags, LocalFlags};
            // The control characters stay, because the editor reads them each time it begins.
            let mut held = termios.clone();
            held.input_flags.remove(
                InputFlags::BRKINT | InputFlags::ICRNL | InputFlags::ISTRIP | InputFlags::IXON,
            );
            held.local_flags.remove(
                LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::IEXTEN | LocalFlags::ISIG,
            );
            set(&held);
        }
    }

    /// Suspends the program, as Ctrl-Z does, with the original terminal mode. When the program
    /// resumes, the terminal is in the editor's mode again.
    #[cfg(unix)]
    pub(super) fn suspend(&self) {
        let editing = nix::sys::termios::tcgetattr(std::io::stdin()).ok();
        self.restore();
        if let Err(error) = nix::sys::signal::raise(nix::sys::signal::SIGTSTP) {
            tracing::debug!(%error, "the program could not be stopped");
        }
        if let Some(editing) = &editing {
            set(editing);
        }
        drop(output::write(BEGIN_BRACKETED_PASTE));
    }
}

#[cfg(unix)]
fn set(termios: &nix::sys::termios::Termios) {
    use nix::sys::termios::{SetArg, tcsetattr};
    if let Err(error) = tcsetattr(std::io::stdin(), SetArg::TCSANOW, termios) {
        tracing::debug!(%error, "the terminal's mode could not be changed");
    }
}
