//! What stops the assistant itself; what only stops a turn is a reply.

use nanobot_bus::BusError;
use nanobot_session::SessionError;

/// An error that only an operator can mend.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The session log cannot be read or written: nothing was done that is not recorded.
    #[error("the session log failed")]
    Session(#[from] SessionError),
    /// The message store failed.
    #[error("the message store failed")]
    Bus(#[from] BusError),
    /// The program shuts down: the turn is journaled as far as it got and can go on later.
    #[error("interrupted by shutdown")]
    Interrupted,
}

impl AgentError {
    /// Whether trying again later can succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            // A moved head means that another process wrote to the session; reading anew helps.
            Self::Session(error) => {
                error.is_transient() || matches!(error, SessionError::Moved { .. })
            }
            Self::Bus(error) => error.is_transient(),
            Self::Interrupted => true,
        }
    }
}

/// An error with everything that led to it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}
