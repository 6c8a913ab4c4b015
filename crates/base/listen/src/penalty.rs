//! A growing delay for addresses that send wrong credentials.
//!
//! Decision: the delay comes before the credentials are checked. Delaying only the refusals would
//! not slow down a client that guesses on several connections. No address is locked out, because
//! all users may share the address of a reverse proxy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Number of failures that cause no delay.
const FREE_FAILURES: u32 = 3;
/// Delay after the first failure beyond [`FREE_FAILURES`]. It doubles with each further failure.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(4);
/// Period without failures after which an address is forgotten.
const MEMORY: Duration = Duration::from_mins(10);
/// Maximum number of addresses that are remembered.
const ADDRESSES: usize = 1024;

/// Authentication failures by address.
#[derive(Debug, Default)]
pub struct Penalties {
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

impl Penalties {
    /// Returns the delay to apply before credentials from this address are checked.
    #[must_use]
    pub fn delay(&self, address: IpAddr) -> Duration {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.get(&address) {
            Some((count, last)) if *count >= FREE_FAILURES && last.elapsed() < MEMORY => {
                let doublings = count.saturating_sub(FREE_FAILURES).min(8);
                MAX_DELAY.min(FIRST_DELAY.saturating_mul(2_u32.saturating_pow(doublings)))
            }
            _ => Duration::ZERO,
        }
    }

    /// Counts a failed authentication of an address.
    pub fn failed(&self, address: IpAddr) {
        let now = Instant::now();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, (_, last)| last.elapsed() < MEMORY);
        if failures.len() >= ADDRESSES
            && !failures.contains_key(&address)
            && let Some(oldest) = failures
                .iter()
                .min_by_key(|(_, (_, last))| *last)
                .map(|(address, _)| *address)
        {
            failures.remove(&oldest);
        }
        let (count, last) = failures.entry(address).or_insert((0, now));
        *count = count.saturating_add(1);
        *last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_a_limit_and_expire() {
        let (penalties, one, other) = (
            Penalties::default(),
            IpAddr::from([192, 0, 2, 1]),
            IpAddr::from([192, 0, 2, 2]),
        );
        let mut delays = Vec::new();
        for _ in 0..9 {
            delays.push(penalties.delay(one).as_millis());
            penalties.failed(one);
        }
        assert_eq!(delays, [0, 0, 0, 250, 500, 1000, 2000, 4000, 4000]);
        assert_eq!(penalties.delay(other), Duration::ZERO);
        tokio::time::advance(MEMORY).await;
        assert_eq!(penalties.delay(one), Duration::ZERO);
    }

    #[test]
    fn memory_is_bounded() {
        let penalties = Penalties::default();
        for number in 0..3000_u32 {
            penalties.failed(IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!(penalties.failures.lock().unwrap().len(), ADDRESSES);
    }
}
