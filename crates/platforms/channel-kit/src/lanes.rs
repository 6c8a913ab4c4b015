//! Keyed lanes: work of one chat in order, several chats at once.
//!
//! Decision: all of it runs inside the task that receives, so that it ends with it and nothing has
//! to be locked: what was under way then was not acknowledged, and comes again.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

/// Work that is under way or waits, by its lane.
pub struct Lanes<'a, K, T> {
    running: FuturesUnordered<BoxFuture<'a, (K, T)>>,
    /// The lanes with work under way or ready, and the work that waits for it.
    waiting: HashMap<K, VecDeque<BoxFuture<'a, T>>>,
    /// The first of its lane each; it waits for a place.
    ready: VecDeque<(K, BoxFuture<'a, T>)>,
    at_a_time: usize,
    count: usize,
}

impl<K, T> fmt::Debug for Lanes<'_, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl<'a, K, T> Lanes<'a, K, T>
where
    K: Clone + Eq + Hash + Send + 'a,
    T: Send + 'a,
{
    /// No work, and later at most `at_a_time` lanes at once.
    #[must_use]
    pub fn new(at_a_time: usize) -> Self {
        Self {
            running: FuturesUnordered::new(),
            waiting: HashMap::new(),
            ready: VecDeque::new(),
            at_a_time,
            count: 0,
        }
    }

    /// Number of works that are under way or wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// `true` if there is no work.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of works that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.count.saturating_sub(self.running.len())
    }

    /// `true` if a lane has work.
    #[must_use]
    pub fn contains(&self, lane: &K) -> bool {
        self.waiting.contains_key(lane)
    }

    /// Adds work after all other work of its lane.
    pub fn add(&mut self, lane: K, work: impl Future<Output = T> + Send + 'a) {
        self.count += 1;
        let work: BoxFuture<'a, T> = Box::pin(work);
        if let Some(queue) = self.waiting.get_mut(&lane) {
            queue.push_back(work);
        } else {
            self.waiting.insert(lane.clone(), VecDeque::new());
            self.ready.push_back((lane, work));
            self.start();
        }
    }

    /// Waits for the next work that is done; for ever if there is none. Cancel safe.
    pub async fn next(&mut self) -> T {
        let Some((lane, done)) = self.running.next().await else {
            return std::future::pending().await;
        };
        self.count = self.count.saturating_sub(1);
        match self.waiting.get_mut(&lane).and_then(VecDeque::pop_front) {
            Some(work) => self.ready.push_back((lane, work)),
            None => drop(self.waiting.remove(&lane)),
        }
        self.start();
        done
    }

    /// Waits for the next work that is done, and returns it with all that is done by then. Cancel
    /// safe.
    pub async fn next_all(&mut self) -> Vec<T> {
        let mut all = vec![self.next().await];
        while let Some(done) = self.next().now_or_never() {
            all.push(done);
        }
        all
    }

    fn start(&mut self) {
        while self.running.len() < self.at_a_time {
            let Some((lane, work)) = self.ready.pop_front() else {
                return;
            };
            self.running
                .push(Box::pin(async move { (lane, work.await) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn lane_runs_in_order_without_blocking_others() {
        let gate = Arc::new(Notify::new());
        let mut lanes = Lanes::new(usize::MAX);
        let held = Arc::clone(&gate);
        lanes.add("a", async move {
            held.notified().await;
            1
        });
        lanes.add("a", async { 2 });
        lanes.add("b", async { 3 });
        assert_eq!(
            (lanes.len(), lanes.waiting(), lanes.next_all().await),
            (3, 1, vec![3])
        );
        assert_eq!(["a", "b"].map(|lane| lanes.contains(&lane)), [true, false]);
        gate.notify_one();
        assert_eq!(
            (lanes.next_all().await, lanes.is_empty()),
            (vec![1, 2], true)
        );
    }

    #[tokio::test]
    async fn concurrent_lanes_are_limited() {
        let gate = Arc::new(Notify::new());
        let mut lanes = Lanes::new(2);
        for lane in 0..3 {
            let held = Arc::clone(&gate);
            lanes.add(lane, async move {
                if lane < 2 {
                    held.notified().await;
                }
                lane
            });
        }
        assert_eq!(lanes.waiting(), 1);
        gate.notify_one();
        // Both that are held are asked before either is done.
        assert_eq!((lanes.next().await, lanes.next().await), (0, 2));
    }
}
