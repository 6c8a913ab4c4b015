//! Faults that can be scripted for one call.

use serde_json::Value;

/// A fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers 429 with `parameters.retry_after` in seconds; the call has no effect.
    RetryAfter(u32),
    /// Answers with this status and description; the call has no effect.
    Status(u16, String),
    /// Answers with this result, as if the call had succeeded; the call has no effect.
    Result(Value),
    /// Never answers; the call has no effect.
    Hang,
    /// Resets the connection; the call has no effect.
    Drop,
    /// The call takes effect, then the connection is reset.
    DropAfterEffect,
    /// The call takes effect, then no answer comes.
    HangAfterEffect,
}

impl Fault {
    /// Returns 401, as for a revoked token.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::Status(401, "Unauthorized".to_owned())
    }

    /// Returns 404, as from a server that does not know the method.
    #[must_use]
    pub fn unknown_method() -> Self {
        Self::Status(404, "Not Found".to_owned())
    }

    /// Returns 400, as for a draft in a chat that shows none.
    #[must_use]
    pub fn peer_takes_no_drafts() -> Self {
        Self::Status(400, "Bad Request: TEXTDRAFT_PEER_INVALID".to_owned())
    }

    /// Returns 502, as when the service is down.
    #[must_use]
    pub fn bad_gateway() -> Self {
        Self::Status(502, "Bad Gateway".to_owned())
    }
}
