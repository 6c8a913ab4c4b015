//! Who may ask Slack what was missed, of all the conversations to be caught up with.
//!
//! Decision: they ask one after the other, because Slack's limits are small. Those in which something is
//! said meanwhile do not stand in that line, so that what is told live waits for its own conversation
//! and for no other.

use std::collections::BTreeMap;

use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// How many of those that are waited for may ask at a time.
const URGENT: usize = 4;

/// The line, and who is waited for.
#[derive(Debug)]
pub(crate) struct Turns {
    line: Semaphore,
    urgent: Semaphore,
    /// The conversations in which something told live waits, and how much.
    awaited: watch::Sender<BTreeMap<String, usize>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            line: Semaphore::new(1),
            urgent: Semaphore::new(URGENT),
            awaited: watch::Sender::default(),
        }
    }
}

/// Something waits until dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    turns: &'a Turns,
    chat: String,
}

impl Turns {
    /// Something waits for what was missed in a conversation.
    pub(crate) fn wait(&self, chat: &str) -> Waiting<'_> {
        self.awaited
            .send_modify(|awaited| *awaited.entry(chat.to_owned()).or_default() += 1);
        Waiting {
            turns: self,
            chat: chat.to_owned(),
        }
    }

    /// Returns when something waits for a conversation.
    pub(crate) async fn awaited(&self, chat: &str) {
        let mut awaited = self.awaited.subscribe();
        if awaited
            .wait_for(|awaited| awaited.contains_key(chat))
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it is the turn of a conversation, which lasts until what is returned is dropped.
    pub(crate) async fn turn(&self, chat: &str) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            () = self.awaited(chat) => self.urgent.acquire().await.ok(),
            turn = self.line.acquire() => turn.ok(),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.awaited.send_modify(|awaited| {
            if let Some(count) = awaited.get_mut(&self.chat) {
                *count -= 1;
                if *count == 0 {
                    awaited.remove(&self.chat);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn whoever_is_waited_for_does_not_stand_in_line() {
        let turns = Turns::default();
        let first = turns.turn("C1").await;
        let mut second = Box::pin(turns.turn("C2"));
        let mut third = Box::pin(turns.turn("C3"));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        let waiting = [turns.wait("C3"), turns.wait("C3"), turns.wait("C4")];
        assert!((&mut second).now_or_never().is_none());
        let third = third.now_or_never();
        assert!(third.is_some(), "somebody waits for it");
        drop((third, waiting));
        assert!(turns.awaited.borrow().is_empty(), "nobody waits any more");
        drop(first);
        assert!(second.now_or_never().is_some());
    }
}
