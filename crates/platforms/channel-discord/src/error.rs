//! Discord's refusals and their meaning to a channel.

use std::fmt;

use nanobot_channel::ChannelError;

/// The request is larger than the server takes.
const TOO_LARGE: u64 = 40_005;
/// There is no such message (any more).
const UNKNOWN_MESSAGE: u64 = 10_008;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in Discord's own terms.
pub(crate) type Refusal = DiscordRefusal;

/// A refusal of Discord.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscordRefusal {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Discord's own number; 0 where it says none.
    pub(crate) code: u64,
    /// The server's message.
    pub(crate) message: String,
}

impl fmt::Display for DiscordRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            code,
            message,
        } = self;
        write!(f, "{message} (status {status}, code {code})")
    }
}

impl DiscordRefusal {
    /// `true` if the message that a call is about is gone.
    pub(crate) fn is_message_gone(&self) -> bool {
        self.code == UNKNOWN_MESSAGE
    }
}

impl nanobot_channel_kit::Refusal for DiscordRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.status {
            401 => ChannelError::Auth(text),
            413 => ChannelError::TooLarge(text),
            _ if self.code == TOO_LARGE => ChannelError::TooLarge(text),
            403 | 404 => ChannelError::NotFound(text),
            500.. => ChannelError::Unavailable(text),
            _ => ChannelError::Refused(text),
        }
    }
}

/// `true` if trying again later may help.
pub(crate) fn is_transient(error: &CallError) -> bool {
    match error {
        CallError::Refused(refusal) => refusal.status >= 500,
        CallError::RateLimited(_) | CallError::Unreachable(_) | CallError::Interrupted(_) => true,
        CallError::Misunderstood(_) | CallError::Setup(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn refusals_map_to_channel_errors() {
        let refused = |status, code| {
            CallError::Refused(Refusal {
                status,
                code,
                message: "No".to_owned(),
            })
        };
        let table = [
            (
                refused(401, 0),
                "the platform refuses the credentials: No (status 401, code 0)",
            ),
            (
                refused(403, 50_013),
                "cannot deliver there: No (status 403, code 50013)",
            ),
            (
                refused(404, 10_003),
                "cannot deliver there: No (status 404, code 10003)",
            ),
            (
                refused(413, 0),
                "too large for the platform: No (status 413, code 0)",
            ),
            (
                refused(400, 40_005),
                "too large for the platform: No (status 400, code 40005)",
            ),
            (
                refused(400, 50_035),
                "the platform refuses: No (status 400, code 50035)",
            ),
            (
                refused(503, 0),
                "the platform cannot be reached: No (status 503, code 0)",
            ),
            (
                CallError::RateLimited(Duration::from_millis(1500)),
                "rate limited for 1500 ms",
            ),
            (
                CallError::Unreachable("no route".into()),
                "the platform cannot be reached: no route",
            ),
            (
                CallError::Interrupted("reset".into()),
                "unknown whether the platform took it: reset",
            ),
        ];
        for (error, text) in table {
            assert_eq!(ChannelError::from(error).to_string(), text);
        }
        let repeatable = CallError::Interrupted("reset".into()).repeatable();
        assert_eq!(
            repeatable.to_string(),
            "the platform cannot be reached: reset"
        );
    }
}
