//! What may go wrong with one call.

use serde_json::Value;

/// A fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 429 with `parameters.retry_after` in seconds; nothing is done.
    RetryAfter(u32),
    /// This status and description; nothing is done.
    Status(u16, String),
    /// This result, as if all were well; nothing is done.
    Result(Value),
    /// Never answered; nothing is done.
    Hang,
    /// The connection is reset; nothing is done.
    Drop,
    /// The call takes effect, then the connection is reset.
    DropAfterEffect,
    /// The call takes effect, then no answer comes.
    HangAfterEffect,
}

impl Fault {
    /// 401, as for a revoked token.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::Status(401, "Unauthorized".to_owned())
    }

    /// 502, as when the service is down.
    #[must_use]
    pub fn bad_gateway() -> Self {
        Self::Status(502, "Bad Gateway".to_owned())
    }
}
