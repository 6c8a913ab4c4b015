//! The access token of an app, fetched with its secret and renewed before it expires.
//!
//! Decision: the age is measured by the monotonic clock from the moment of the request, so neither
//! a wrong clock nor a slow answer extends a token.

use std::time::Duration;

use nanobot_channel::Value;
use serde::{Deserialize as _, Deserializer};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Secret;

/// Remaining lifetime at which a token is renewed.
const RENEW_BEFORE: Duration = Duration::from_mins(5);
/// Shortest lifetime that is believed: a server must not cause a request for each call.
const SHORTEST: Duration = Duration::from_secs(20);
/// Longest lifetime that is believed; platforms grant two hours.
const LONGEST: Duration = Duration::from_hours(2);

/// The current token of an app, if there is one. A caller whose token is refused drops it by
/// [`TokenCache::drop_refused`], and makes its call once more.
#[derive(Debug, Default)]
pub struct TokenCache(Mutex<Option<Token>>);

#[derive(Clone, Debug)]
struct Token {
    secret: Secret,
    renew_at: Instant,
}

impl TokenCache {
    /// Returns the current token, or fetches one by `fetch`, which returns it with its lifetime.
    /// Concurrent callers wait for the same call.
    ///
    /// # Errors
    /// Returns the error of `fetch`.
    pub async fn get<E>(
        &self,
        fetch: impl Future<Output = Result<(Secret, Duration), E>>,
    ) -> Result<Secret, E> {
        let mut current = self.0.lock().await;
        let now = Instant::now();
        if let Some(token) = current.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.secret.clone());
        }
        let (secret, lifetime) = fetch.await?;
        *current = Some(Token {
            secret: secret.clone(),
            renew_at: now + usable(lifetime),
        });
        Ok(secret)
    }

    /// Drops a token that was refused, unless there is another one by now.
    pub async fn drop_refused(&self, refused: &Secret) {
        let mut current = self.0.lock().await;
        current.take_if(|token| token.secret == *refused);
    }
}

/// Reads the lifetime of a token in seconds: a number, also one in a text. Anything else is 0.
///
/// # Errors
/// As the deserializer.
pub fn lifetime<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = match Value::deserialize(deserializer)? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    let bounded = seconds
        .unwrap_or_default()
        .clamp(0.0, LONGEST.as_secs_f64());
    Ok(Duration::try_from_secs_f64(bounded).unwrap_or_default())
}

/// Returns the time for which a token is used.
fn usable(lifetime: Duration) -> Duration {
    let lifetime = lifetime.clamp(SHORTEST, LONGEST);
    lifetime
        .saturating_sub(RENEW_BEFORE)
        .max(lifetime.mul_f64(0.5))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    async fn get(cache: &TokenCache, fetches: &AtomicU32, lifetime: u64) -> String {
        let fetch = async {
            // Others get a chance to fetch, too.
            tokio::task::yield_now().await;
            let number = fetches.fetch_add(1, Ordering::Relaxed);
            let token = Secret::new(format!("t-{number}"));
            Ok::<_, ()>((token, Duration::from_secs(lifetime)))
        };
        cache.get(fetch).await.unwrap().expose().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn token_is_renewed_before_it_expires() {
        let (cache, fetches) = (TokenCache::default(), AtomicU32::new(0));
        for (pause, expected) in [(0, "t-0"), (6899, "t-0"), (2, "t-1"), (6901, "t-2")] {
            tokio::time::advance(Duration::from_secs(pause)).await;
            assert_eq!(
                get(&cache, &fetches, 7200).await,
                expected,
                "after {pause} s"
            );
        }
    }

    #[test]
    fn lifetime_of_any_form_is_read() {
        for (text, expected) in [
            ("7200", 7200.0),
            (r#"" 7200 ""#, 7200.0),
            ("1.5", 1.5),
            ("-5", 0.0),
            ("1e300", 7200.0),
            (r#""NaN""#, 0.0),
            ("null", 0.0),
            ("[]", 0.0),
        ] {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let read = lifetime(&mut deserializer).unwrap();
            assert_eq!(read, Duration::from_secs_f64(expected), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lifetime_is_bounded() {
        for (lifetime, expected) in [(0, 10), (60, 30), (7200, 6900), (u64::MAX, 6900)] {
            let lifetime = usable(Duration::from_secs(lifetime));
            assert_eq!(lifetime.as_secs(), expected);
        }
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_fetch() {
        let (cache, fetches) = (TokenCache::default(), AtomicU32::new(0));
        let tokens = tokio::join!(
            get(&cache, &fetches, 7200),
            get(&cache, &fetches, 7200),
            get(&cache, &fetches, 7200),
        );
        assert_eq!(tokens, ("t-0".into(), "t-0".into(), "t-0".into()));
    }

    #[tokio::test]
    async fn only_the_refused_token_is_dropped() {
        let (cache, fetches) = (TokenCache::default(), AtomicU32::new(0));
        assert_eq!(get(&cache, &fetches, 7200).await, "t-0");
        cache.drop_refused(&Secret::new("t-0")).await;
        assert_eq!(get(&cache, &fetches, 7200).await, "t-1");
        cache.drop_refused(&Secret::new("t-0")).await;
        assert_eq!(get(&cache, &fetches, 7200).await, "t-1");
    }
}
