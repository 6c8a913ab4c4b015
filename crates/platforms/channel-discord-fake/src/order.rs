//! Orders that a test gives to a gateway connection.

/// An order that is carried out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Sends Reconnect (op 7).
    Reconnect,
    /// Sends Invalid Session (op 9).
    Invalidate {
        /// `true` if the session can be resumed.
        resumable: bool,
    },
    /// Closes the connection with this code.
    Close(u16),
    /// Closes the TCP connection in good order without a close frame.
    HangUp,
    /// Keeps the connection open, but sends and answers nothing from now on.
    Stall,
    /// Requests a heartbeat (op 1) out of turn.
    AskForHeartbeat,
    /// Sends this text as a frame.
    Raw(String),
    /// Sends the session's events with a number above this one again.
    Repeat {
        /// Sequence number.
        after: u64,
    },
}
