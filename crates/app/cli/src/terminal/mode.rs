//! The mode of the terminal while a conversation is held at it.
//!
//! Decision: between two lines the terminal stays as the line editor has it. Its own mode would echo
//! what is typed there, and take Ctrl-C and Ctrl-D away before the next line could have them.

use crate::output;

/// Has pastes marked, as the line editor wants them.
#[cfg(unix)]
const BEGIN_BRACKETED_PASTE: &str = "\u{1b}[?2004h";
/// Ends what the line editor began: pastes are no longer marked.
const END_BRACKETED_PASTE: &str = "\u{1b}[?2004l\r";

/// The mode a terminal had when the program started, to be put back when it ends.
#[derive(Clone, Debug)]
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
            set(termios);
        }
    }

    /// From now on keys wait for who reads them: none is shown, none means anything to the terminal.
    pub(super) fn hold_keys(&self) {
        #[cfg(unix)]
        if let Some(termios) = &self.termios {
            use nix::sys::termios::{InputFlags, LocalFlags};
            // The control characters stay, because the editor asks for them each time it begins.
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

    /// Stops the program, as Ctrl-Z does, with the terminal as it was; when it goes on, the terminal is
    /// the editor's again.
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
