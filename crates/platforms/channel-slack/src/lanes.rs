//! Work on envelopes: one at a time per chat, chats beside each other.
//!
//! Decision: all of it runs inside the task that receives, so that it ends with it and nothing has
//! to be locked. What a chat gets while it is busy waits in order.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

/// Work that is under way or waits, by the chat it belongs to.
pub(crate) struct Lanes<'a, T> {
    running: FuturesUnordered<BoxFuture<'a, (String, T)>>,
    waiting: HashMap<String, VecDeque<BoxFuture<'a, T>>>,
    count: usize,
}

impl<T> fmt::Debug for Lanes<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Send + 'a> Lanes<'a, T> {
    pub(crate) fn new() -> Self {
        Self {
            running: FuturesUnordered::new(),
            waiting: HashMap::new(),
            count: 0,
        }
    }

    /// How much is under way or waits.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds work behind all other work of that chat.
    pub(crate) fn add(&mut self, chat: String, work: impl Future<Output = T> + Send + 'a) {
        self.count += 1;
        let work: BoxFuture<'a, T> = Box::pin(work);
        if let Some(queue) = self.waiting.get_mut(&chat) {
            queue.push_back(work);
        } else {
            self.waiting.insert(chat.clone(), VecDeque::new());
            self.start(chat, work);
        }
    }

    fn start(&self, chat: String, work: BoxFuture<'a, T>) {
        self.running
            .push(Box::pin(async move { (chat, work.await) }));
    }

    /// Waits for the next work that is done; for ever when there is none. Cancel safe.
    pub(crate) async fn next(&mut self) -> T {
        let Some((chat, done)) = self.running.next().await else {
            return std::future::pending().await;
        };
        self.count = self.count.saturating_sub(1);
        match self.waiting.get_mut(&chat).and_then(VecDeque::pop_front) {
            Some(work) => self.start(chat, work),
            None => drop(self.waiting.remove(&chat)),
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_chat_is_served_in_order_and_keeps_no_other_waiting() {
        let gate = Arc::new(Notify::new());
        let mut lanes = Lanes::new();
        let held = Arc::clone(&gate);
        lanes.add("a".to_owned(), async move {
            held.notified().await;
            1
        });
        lanes.add("a".to_owned(), async { 2 });
        lanes.add("b".to_owned(), async { 3 });
        assert_eq!((lanes.len(), lanes.next().await), (3, 3));
        gate.notify_one();
        assert_eq!(
            (lanes.next().await, lanes.next().await, lanes.len()),
            (1, 2, 0)
        );
    }
}
