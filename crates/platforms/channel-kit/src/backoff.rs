//! Exponential backoff between tries.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);
/// Doublings after which any pause is the longest one.
const MOST_DOUBLINGS: u32 = 20;

/// Returns the pause before the next try: `first`, doubled for each of so many failures before the
/// last one, up to half a minute.
#[must_use]
pub fn backoff(first: Duration, failures: u32) -> Duration {
    first
        .saturating_mul(2_u32.saturating_pow(failures.min(MOST_DOUBLINGS)))
        .min(LONGEST)
}

/// Returns the same pause, longer by up to a quarter at random: clients that lost a server together
/// do not come back together.
#[must_use]
pub fn jittered_backoff(first: Duration, failures: u32) -> Duration {
    let pause = backoff(first, failures);
    pause + pause.mul_f64(chance() / 4.0)
}

/// Returns a random number from 0 to 1. Hash seeds are random enough for pauses.
#[must_use]
pub fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_thirty_seconds() {
        let table = [
            (0, 500),
            (1, 1000),
            (5, 16_000),
            (6, 30_000),
            (u32::MAX, 30_000),
        ];
        for (failures, milliseconds) in table {
            let pause = backoff(Duration::from_millis(500), failures);
            assert_eq!(
                pause,
                Duration::from_millis(milliseconds),
                "after {failures}"
            );
        }
    }
    #[test]
    fn jitter_adds_at_most_a_quarter() {
        for _ in 0..100 {
            let pause = jittered_backoff(Duration::from_millis(400), 0);
            assert!((400..=500).contains(&pause.as_millis()), "{pause:?}");
        }
    }
}
