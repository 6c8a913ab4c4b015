//! Errors that stop the assistant itself. A failure that stops only a turn becomes a reply instead.

use nanobot_bus::BusError;
use nanobot_session::SessionError;

/// An error that only an operator can fix.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The session log could not be read or written. Nothing was done that is not recorded.
    #[error("the session log failed")]
    Session(#[from] SessionError),
    /// The message store failed.
    #[error("the message store failed")]
    Bus(#[from] BusError),
    /// The program is shutting down. The turn is journaled up to its last step and can be resumed.
    #[error("interrupted by shutdown")]
    Interrupted,
}

impl AgentError {
    /// Returns `true` if a later retry can succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            // A moved head means that another process wrote to the session; reading it again helps.
            Self::Session(error) => {
                error.is_transient() || matches!(error, SessionError::Moved { .. })
            }
            Self::Bus(error) => error.is_transient(),
            Self::Interrupted => true,
        }
    }
}
