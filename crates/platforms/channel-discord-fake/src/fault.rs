//! Faults that can be scripted for one call.

/// A fault of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Answers 429 with `retry_after` in seconds; the call has no effect.
    RetryAfter {
        /// Time to wait, in seconds.
        seconds: f64,
        /// `true` if the limit applies to the whole bot.
        is_global: bool,
    },
    /// The call takes effect, and the answer says that the rate limit is used up for this many
    /// seconds.
    LastOfAllowance(f64),
    /// Answers with this status and Discord's code and message; the call has no effect.
    Status(u16, u64, String),
    /// Answers with an HTML page with this status, like a proxy; the call has no effect.
    Page(u16),
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
    /// Returns a rate limit for this kind of request.
    #[must_use]
    pub fn retry_after(seconds: f64) -> Self {
        Self::RetryAfter {
            seconds,
            is_global: false,
        }
    }

    /// Returns 401, as for a revoked token.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::Status(401, 0, "401: Unauthorized".to_owned())
    }

    /// Returns 503, as when the service is down.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::Status(503, 0, "503: Service Unavailable".to_owned())
    }
}
