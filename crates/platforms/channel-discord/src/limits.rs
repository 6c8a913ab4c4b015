//! Rate limits of the REST API.
//!
//! The server reports the rest of each allowance with every answer, by kind of request and channel.
//! A request without allowance waits here, because refusals count against the bot.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Most allowances that are remembered.
const CAPACITY: usize = 1024;
/// The allowance of the whole bot.
const GLOBAL: &str = "";

/// Allowances that are used up.
#[derive(Debug, Default)]
pub(crate) struct Limits(Mutex<HashMap<String, Instant>>);

impl Limits {
    /// Returns the time that a request of this bucket has to wait.
    pub(crate) fn pause(&self, bucket: &str) -> Duration {
        let spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = [bucket, GLOBAL]
            .iter()
            .filter_map(|bucket| spent.get(*bucket))
            .max();
        until
            .map(|until| until.saturating_duration_since(Instant::now()))
            .unwrap_or_default()
    }

    /// Holds requests of a bucket for this time.
    pub(crate) fn hold(&self, bucket: &str, pause: Duration) {
        let now = Instant::now();
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.retain(|_, until| *until > now);
        if spent.len() < CAPACITY {
            spent.insert(bucket.to_owned(), now + pause);
        }
    }

    /// Holds every request for this time.
    pub(crate) fn hold_all(&self, pause: Duration) {
        self.hold(GLOBAL, pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rate_limit_holds_its_bucket_until_reset() {
        let limits = Limits::default();
        limits.hold("a", Duration::from_secs(2));
        assert_eq!(
            ["a", "b"].map(|bucket| limits.pause(bucket).as_secs()),
            [2, 0]
        );
        limits.hold_all(Duration::from_secs(5));
        assert_eq!(
            ["a", "b"].map(|bucket| limits.pause(bucket).as_secs()),
            [5, 5]
        );
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(
            ["a", "b"].map(|bucket| limits.pause(bucket).as_secs()),
            [0, 0]
        );
    }
}
