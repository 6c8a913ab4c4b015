//! Results of recent searches, in memory.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Maximum number of searches that are kept.
const MAX_ENTRIES: usize = 64;
/// Maximum size of their results together, in bytes.
const MAX_BYTES: usize = 512 << 10;

/// The results of searches, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SearchCache(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    query: String,
    count: u32,
    results: String,
    at: Instant,
}

impl SearchCache {
    /// Returns results that are at most `lifetime` old, with their age.
    pub(super) fn find(
        &self,
        (query, count): (&str, u32),
        lifetime: Duration,
        now: Instant,
    ) -> Option<(String, Duration)> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| now.duration_since(entry.at) < lifetime);
        let found = entries
            .iter()
            .find(|entry| entry.query == query && entry.count == count)?;
        Some((found.results.clone(), now.duration_since(found.at)))
    }

    /// Keeps results, and drops the oldest ones beyond the bounds.
    pub(super) fn keep(&self, (query, count): (&str, u32), results: &str, now: Instant) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.query != query || entry.count != count);
        entries.push_back(Entry {
            query: query.to_owned(),
            count,
            results: results.to_owned(),
            at: now,
        });
        let size = |entry: &Entry| entry.query.len() + entry.results.len();
        while entries.len() > MAX_ENTRIES || entries.iter().map(size).sum::<usize>() > MAX_BYTES {
            entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_for_a_while() {
        let (cache, start, life) = (
            SearchCache::default(),
            Instant::now(),
            Duration::from_secs(60),
        );
        let later = |seconds| start + Duration::from_secs(seconds);
        cache.keep(("tea", 5), "one", start);
        let found = cache.find(("tea", 5), life, later(59));
        assert_eq!(found, Some(("one".to_owned(), Duration::from_secs(59))));
        assert_eq!(cache.find(("tea", 6), life, later(1)), None);
        assert_eq!(cache.find(("tea", 5), Duration::ZERO, start), None);
        cache.keep(("tea", 5), "two", later(1));
        assert_eq!(cache.find(("tea", 5), life, later(60)).unwrap().0, "two");
        assert_eq!(cache.find(("tea", 5), life, later(61)), None);
    }

    #[test]
    fn entries_and_bytes_are_bounded() {
        let (cache, now, life) = (
            SearchCache::default(),
            Instant::now(),
            Duration::from_secs(60),
        );
        for number in 0..200 {
            cache.keep((&number.to_string(), 1), "x", now);
        }
        assert_eq!(cache.0.lock().unwrap().len(), MAX_ENTRIES);
        assert!(cache.find(("199", 1), life, now).is_some());
        cache.keep(("big", 1), &"x".repeat(MAX_BYTES), now);
        assert!(cache.0.lock().unwrap().is_empty());
    }
}
