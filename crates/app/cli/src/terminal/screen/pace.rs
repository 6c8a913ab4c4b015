//! The times at which frames are drawn.

use std::time::{Duration, Instant};

/// Minimum time between the beginnings of two frames.
const FRAME: Duration = Duration::from_millis(16);
/// Part of the time that drawing may take: one of so many.
const SHARE: u32 = 4;

/// Keeps frames apart: words may come faster than a screen shows them, and a slow terminal must not
/// take all the time.
#[derive(Debug, Default)]
pub(in crate::terminal) struct FramePace {
    next: Option<Instant>,
}

impl FramePace {
    /// Returns the earliest time of the next frame.
    pub(in crate::terminal) fn next_frame(&self) -> Instant {
        self.next.unwrap_or_else(Instant::now)
    }

    /// Records a frame that was begun at a time and is drawn now.
    pub(in crate::terminal) fn drawn(&mut self, begun: Instant) {
        self.next = Some(begun + FRAME.max(begun.elapsed() * SHARE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_frames_are_rare() {
        let mut pace = FramePace::default();
        assert!(pace.next_frame() <= Instant::now());
        let begun = Instant::now();
        pace.drawn(begun);
        assert!(pace.next_frame() >= begun + FRAME);
        let slow = Instant::now().checked_sub(Duration::from_secs(1));
        let slow = slow.unwrap();
        pace.drawn(slow);
        assert!(pace.next_frame() >= slow + Duration::from_secs(4));
    }
}
