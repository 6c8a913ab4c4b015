//! The access token of the app, fetched with the Client Secret and renewed before it expires.
//!
//! Decision: the lifetime runs on the monotonic clock, from the moment at which the request began.
//! A wrong system clock or a slow answer never extends it. Refused tokens are dropped; the call is
//! then made once more with a new one.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Secret;

/// Remaining lifetime at which a token is renewed.
const RENEW_BEFORE: Duration = Duration::from_mins(5);
/// Longest lifetime that is believed; DingTalk grants two hours.
const LONGEST: Duration = Duration::from_hours(2);

/// The current token, if there is one. The lock is held during a fetch, so that concurrent calls
/// share it.
#[derive(Debug, Default)]
pub(crate) struct TokenCache(Mutex<Option<CachedToken>>);

#[derive(Debug)]
struct CachedToken {
    secret: Secret,
    expires: Instant,
}

impl TokenCache {
    /// Returns the current token. If it is about to expire, `fetch` returns a new one with its
    /// lifetime.
    pub(crate) async fn get<E>(
        &self,
        fetch: impl Future<Output = Result<(Secret, Duration), E>>,
    ) -> Result<Secret, E> {
        let mut cached = self.0.lock().await;
        let now = Instant::now();
        match &*cached {
            Some(token) if now < token.expires => Ok(token.secret.clone()),
            _ => {
                let (secret, lifetime) = fetch.await?;
                let expires = now + usable(lifetime);
                *cached = Some(CachedToken {
                    secret: secret.clone(),
                    expires,
                });
                Ok(secret)
            }
        }
    }

    /// Drops a refused token. A newer one is kept.
    pub(crate) async fn drop_refused(&self, refused: &Secret) {
        let mut cached = self.0.lock().await;
        cached.take_if(|token| token.secret == *refused);
    }
}

/// Returns the time for which a token of this lifetime is used: at least half of it.
fn usable(lifetime: Duration) -> Duration {
    let lifetime = lifetime.min(LONGEST);
    (lifetime / 2).max(lifetime.saturating_sub(RENEW_BEFORE))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    async fn get(cache: &TokenCache, fetches: &Cell<u32>, lifetime: u64) -> String {
        let fetch = async {
            // Lets concurrent callers run.
            tokio::task::yield_now().await;
            fetches.set(fetches.get() + 1);
            let token = Secret::new(format!("t-{}", fetches.get()));
            Ok::<_, ()>((token, Duration::from_secs(lifetime)))
        };
        cache.get(fetch).await.unwrap().expose().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn token_is_renewed_early() {
        let (cache, fetches) = (TokenCache::default(), Cell::new(0));
        for (pause, token) in [(0, "t-1"), (6899, "t-1"), (1, "t-2"), (6900, "t-3")] {
            tokio::time::advance(Duration::from_secs(pause)).await;
            assert_eq!(get(&cache, &fetches, 7200).await, token, "{pause} s later");
        }
    }

    #[test]
    fn lifetime_is_bounded() {
        let seconds = [(0, 0), (60, 30), (7200, 6900), (u64::MAX, 6900)];
        for (granted, used) in seconds {
            assert_eq!(usable(Duration::from_secs(granted)).as_secs(), used);
        }
    }

    #[tokio::test]
    async fn concurrent_calls_share_a_fetch() {
        let (cache, fetches) = (TokenCache::default(), Cell::new(0));
        let one = || get(&cache, &fetches, 7200);
        let tokens = tokio::join!(one(), one(), one());
        assert_eq!(tokens, ("t-1".into(), "t-1".into(), "t-1".into()));
    }

    #[tokio::test]
    async fn only_the_refused_token_is_dropped() {
        let (cache, fetches) = (TokenCache::default(), Cell::new(0));
        for token in ["t-1", "t-2", "t-2"] {
            assert_eq!(get(&cache, &fetches, 7200).await, token);
            cache.drop_refused(&Secret::new("t-1")).await;
        }
    }
}
