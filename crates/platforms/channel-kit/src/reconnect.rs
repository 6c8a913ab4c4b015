//! The pace of a receive loop: backoff after failures, and the point where the channel is down.
//!
//! Decision: a loop bridges short interruptions itself, so that its connection state survives them.
//! Longer ones end the run, and the supervisor starts it again.

use std::time::Duration;

use nanobot_channel::{ChannelError, Liveness};

use crate::jittered_backoff;

/// Longest rate limit that is waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Attempts to connect or to poll.
#[derive(Clone, Debug)]
pub struct Reconnect {
    platform: &'static str,
    first: Duration,
    patience: u32,
    failures: u32,
}

impl Reconnect {
    /// Creates the state before the first attempt. The pause after a failure begins with `first`
    /// and doubles; with the failure number `patience` in a row the channel is down.
    #[must_use]
    pub const fn new(platform: &'static str, first: Duration, patience: u32) -> Self {
        Self {
            platform,
            first,
            patience,
            failures: 0,
        }
    }

    /// Number of failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Forgets the failures.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Returns the pause before the next attempt, at least the first one, and reports the channel as
    /// degraded until then.
    ///
    /// # Errors
    /// `error`, if another attempt would not help: for failures other than
    /// [`ChannelError::Unavailable`] and short rate limits, and after too many in a row.
    pub fn failed(
        &mut self,
        error: ChannelError,
        liveness: &dyn Liveness,
    ) -> Result<Duration, ChannelError> {
        match error {
            ChannelError::RateLimited { retry_after } if retry_after <= LONGEST_WAIT => {
                let seconds = retry_after.as_secs();
                liveness.degraded(&format!(
                    "{} asks for a pause of {seconds} s",
                    self.platform
                ));
                Ok(retry_after.max(self.first))
            }
            ChannelError::Unavailable(why) if self.failures + 1 < self.patience => {
                liveness.degraded(&why);
                let pause = jittered_backoff(self.first, self.failures);
                self.failures += 1;
                Ok(pause)
            }
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::Assistant;

    use super::*;

    #[test]
    fn consecutive_failures_end_the_run() {
        let assistant = Assistant::new("eve");
        let mut reconnect = Reconnect::new("Chat", Duration::from_secs(1), 3);
        let lost = || ChannelError::Unavailable("lost".to_owned());
        let limited = |seconds| ChannelError::RateLimited {
            retry_after: Duration::from_secs(seconds),
        };
        for first in [1, 2] {
            let pause = reconnect.failed(lost(), &assistant).unwrap().as_millis();
            assert!((first * 1000..=first * 1250).contains(&pause), "{pause}");
        }
        let pause = reconnect.failed(limited(30), &assistant).unwrap();
        assert_eq!((pause.as_secs(), reconnect.failures()), (30, 2));
        let pause = reconnect.failed(limited(0), &assistant).unwrap();
        assert_eq!(
            pause,
            Duration::from_secs(1),
            "a server must not make it hurry"
        );
        assert!(reconnect.failed(limited(31), &assistant).is_err());
        assert!(reconnect.failed(lost(), &assistant).is_err());
        reconnect.succeeded();
        assert!(reconnect.failed(lost(), &assistant).is_ok());
        let refused = ChannelError::Auth("no".to_owned());
        assert!(reconnect.failed(refused, &assistant).is_err());
        assert_eq!(
            assistant.seen().degraded,
            [
                "lost",
                "lost",
                "Chat asks for a pause of 30 s",
                "Chat asks for a pause of 0 s",
                "lost"
            ]
        );
    }
}
