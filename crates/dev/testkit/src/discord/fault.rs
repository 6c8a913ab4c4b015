//! What may go wrong with one call.

/// A fault of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// 429 with `retry_after` in seconds; nothing is done.
    RetryAfter {
        /// The seconds.
        seconds: f64,
        /// Whether it is the whole bot that has to wait.
        is_global: bool,
    },
    /// The call takes effect, and the answer says that nothing is left of the allowance for so many
    /// seconds.
    LastOfAllowance(f64),
    /// This status, with Discord's code and message; nothing is done.
    Status(u16, u64, String),
    /// A page in HTML with that status, as from something on the way; nothing is done.
    Page(u16),
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
    /// A pause for that kind of request.
    #[must_use]
    pub fn retry_after(seconds: f64) -> Self {
        Self::RetryAfter {
            seconds,
            is_global: false,
        }
    }

    /// 401, as for a revoked token.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::Status(401, 0, "401: Unauthorized".to_owned())
    }

    /// 503, as when the service is down.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::Status(503, 0, "503: Service Unavailable".to_owned())
    }
}
