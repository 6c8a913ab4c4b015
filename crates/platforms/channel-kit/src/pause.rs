//! How long to wait before the next try.

use std::time::Duration;

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);
/// Doublings after which any pause is the longest one.
const MOST_DOUBLINGS: u32 = 20;

/// The pause after so many failures before the last one: `first`, doubling up to half a minute.
#[must_use]
pub fn growing_pause(first: Duration, failures: u32) -> Duration {
    first
        .saturating_mul(2_u32.saturating_pow(failures.min(MOST_DOUBLINGS)))
        .min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_half_a_minute() {
        let table = [
            (0, 500),
            (1, 1000),
            (5, 16_000),
            (6, 30_000),
            (u32::MAX, 30_000),
        ];
        for (failures, milliseconds) in table {
            let pause = growing_pause(Duration::from_millis(500), failures);
            assert_eq!(
                pause,
                Duration::from_millis(milliseconds),
                "after {failures}"
            );
        }
    }
}
