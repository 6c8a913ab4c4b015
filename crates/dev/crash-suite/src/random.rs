//! A seeded random number generator.
//!
//! Decision: SplitMix64 (Steele, Lea, Flood 2014), because it is ten lines and every seed is good;
//! nothing here has to be secret.

use std::time::Duration;

/// A random number generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates the generator of one round of a run.
    pub(crate) fn of_round(seed: u64, round: u64) -> Self {
        Self(Self(Self(seed).next().wrapping_add(round)).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The bias is below bound / 2^64.
        self.next().checked_rem(bound).unwrap_or_default()
    }

    /// Returns `true` with probability 1/`n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a duration of at most `span`, with microsecond resolution.
    pub(crate) fn within(&mut self, span: Duration) -> Duration {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(micros.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_values_depend_on_seed_and_round() {
        let draw = |seed, round| {
            let mut random = Random::of_round(seed, round);
            [random.below(1000), random.below(1000), random.below(1000)]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
    }

    #[test]
    fn random_numbers_are_uniform() {
        let mut random = Random::of_round(7, 0);
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1100).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn empty_range_yields_zero() {
        let mut random = Random::of_round(7, 0);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.within(Duration::ZERO), Duration::ZERO);
    }
}
