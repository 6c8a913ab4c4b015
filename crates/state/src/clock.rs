//! Moments that can be stored, from a clock that does not jump.
//!
//! Decision: the wall clock is read once; from then on time is counted by the monotonic one. So
//! setting the clock neither delays nor hastens what waits in this process.

use std::time::Duration;

use nanobot_bus::LONGEST_DELAY;
use tokio::time::Instant;

/// A moment in milliseconds since 1970, by the clock of this process.
pub(crate) type Millis = i64;

/// The clock of one open database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Millis,
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { wall: chrono::Utc::now().timestamp_millis(), start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Millis {
        self.wall.saturating_add(millis(self.start.elapsed()))
    }

    /// The first millisecond that is at least `delay` from now.
    pub(crate) fn after(&self, delay: Duration) -> Millis {
        self.now().saturating_add(millis(delay.min(LONGEST_DELAY))).saturating_add(1)
    }

    /// A stored moment on the monotonic clock; moments before the start are the start.
    pub(crate) fn instant(&self, moment: Millis) -> Instant {
        let since_start = u64::try_from(moment.saturating_sub(self.wall)).unwrap_or(0);
        // Clocks cannot add just any number that may stand in a file.
        self.start.checked_add(Duration::from_millis(since_start)).unwrap_or(self.start + LONGEST_DELAY)
    }
}

pub(crate) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
