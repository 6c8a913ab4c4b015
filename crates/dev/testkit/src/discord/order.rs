//! What a test may do to a gateway connection.

/// Something that happens to a connection once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// "Connect anew, please" (op 7).
    Reconnect,
    /// "Your session is invalid" (op 9); it can be resumed or not.
    Invalidate {
        /// Whether it can.
        resumable: bool,
    },
    /// Closed with that code.
    Close(u16),
    /// Closed in good order below the WebSocket, without a word.
    HangUp,
    /// The connection stays open, but nothing comes any more and nothing is answered.
    Stall,
    /// "Are you there?" (op 1), out of turn.
    AskForHeartbeat,
    /// This text as a frame.
    Raw(String),
    /// The session's events with numbers above this one once more.
    Repeat {
        /// The number.
        after: u64,
    },
}
