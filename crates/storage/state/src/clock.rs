//! Timestamps for storage, from a clock that does not jump.
//!
//! Decision: the wall clock is read once; from then on the monotonic clock counts. Setting the wall
//! clock therefore neither delays nor hastens anything that waits in this process.

use std::time::Duration;

use nanobot_bus::LONGEST_DELAY;
use tokio::time::Instant;

/// A time in milliseconds since 1970, by the clock of this process.
pub(crate) type Millis = i64;

/// The clock of one open database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Millis,
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            wall: chrono::Utc::now().timestamp_millis(),
            start: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Millis {
        self.wall.saturating_add(millis(self.start.elapsed()))
    }

    /// Returns the first millisecond that is at least `delay` from now.
    pub(crate) fn after(&self, delay: Duration) -> Millis {
        self.now()
            .saturating_add(millis(delay.min(LONGEST_DELAY)))
            .saturating_add(1)
    }

    /// Converts a stored time to the monotonic clock: at most [`LONGEST_DELAY`] from now, and not
    /// before the start of the clock.
    pub(crate) fn instant(&self, moment: Millis) -> Instant {
        let since_start = u64::try_from(moment.saturating_sub(self.wall)).unwrap_or(0);
        let latest = Instant::now() + LONGEST_DELAY;
        // A stored value can be too large to add to an `Instant`.
        self.start
            .checked_add(Duration::from_millis(since_start))
            .map_or(latest, |moment| moment.min(latest))
    }
}

pub(crate) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_and_stored_times_are_limited_to_a_year() {
        let clock = Clock::start();
        let year = millis(LONGEST_DELAY);
        for (delay, expected) in [
            (Duration::ZERO, 1),
            (Duration::from_secs(1), 1001),
            (LONGEST_DELAY, year + 1),
            (LONGEST_DELAY * 2, year + 1),
            (Duration::from_millis(u64::MAX), year + 1),
            (Duration::MAX, year + 1),
        ] {
            assert_eq!(clock.after(delay) - clock.now(), expected, "{delay:?}");
        }
        tokio::time::advance(LONGEST_DELAY).await;
        for (moment, expected) in [
            (Millis::MIN, -year),
            (0, -year),
            (clock.now() + 7, 7),
            (clock.now() + year, year),
            (clock.now() + 2 * year, year),
            (Millis::MAX, year),
        ] {
            let instant = clock.instant(moment);
            let away = millis(instant.saturating_duration_since(Instant::now()));
            let ago = millis(Instant::now().saturating_duration_since(instant));
            assert_eq!(away - ago, expected, "{moment}");
        }
    }
}
