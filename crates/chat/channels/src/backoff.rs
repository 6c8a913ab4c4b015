//! Exponential backoff with jitter, so that clients that failed together do not retry together.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Returns the backoff before try number `tries` (from 0): `first`, doubled for every try, at most
/// `max`, plus jitter of up to a quarter.
pub(crate) fn exponential(first: Duration, max: Duration, tries: u32) -> Duration {
    let pause = first
        .saturating_mul(2_u32.saturating_pow(tries.min(16)))
        .min(max);
    pause + pause.mul_f64(random_fraction() / 4.0)
}

/// Returns a random number from 0 to 1. Hash seeds are random enough for jitter.
fn random_fraction() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_the_limit() {
        for (tries, seconds) in [(0, 1), (1, 2), (2, 4), (6, 60), (1000, 60)] {
            let pause = exponential(Duration::from_secs(1), Duration::from_secs(60), tries);
            let least = Duration::from_secs(seconds);
            assert!(
                pause >= least && pause <= least * 5 / 4,
                "{tries}: {pause:?}"
            );
        }
    }
}
