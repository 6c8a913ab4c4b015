//! Per-chat ordering of messages that wait for a retry.
//!
//! Decision: waiting messages stay in the ledger, so no text is held in memory and a crash leaves
//! no doubt about them. This module keeps only the key of the first message of each waiting chat
//! and the keys of those queued after it. Queued messages go back to the ledger until just after
//! the next try of the first. When the first is settled, the next one takes its place. So each chat
//! stays in order without head-of-line blocking of other chats. Messages left from before the start
//! are found by reading the ledger once; only the ledger knows when they are due.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use nanobot_channel::{ChatId, OutboundKey, OutboundMessage};
use tokio::time::Instant;

/// Time to wait for an overdue head, first after its due time and again after it was noticed. A
/// person may have settled it, but the worker may also have been busy with other chats.
const GRACE: Duration = Duration::from_secs(5);
/// Interval between the retries of messages queued after the head.
const RETRY_SPACING: Duration = Duration::from_millis(20);
/// Time to wait for a head inherited from before the start.
const INHERITED_WAIT: Duration = Duration::from_mins(1);
/// Poll interval for messages queued after an inherited or overdue head.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Number of chats above which those past their due time are forgotten.
const MAX_CHATS: usize = 1024;
/// Maximum number of messages remembered after the head; those beyond keep no order.
const MAX_QUEUED: usize = 4096;

/// A chat that waits for a retry.
#[derive(Debug)]
struct WaitingChat {
    /// Head: the message that the chat waits for.
    head: OutboundKey,
    /// Number of failed tries of the head.
    tries: u32,
    /// Time of the head's first failed try.
    since: Instant,
    /// Time of the head's next try.
    until: Instant,
    /// Set when the chat has waited since before the start: `until` then only limits the wait.
    is_inherited: bool,
    /// Set when the head missed its due time and gets one more grace period.
    is_overdue: bool,
    /// Messages queued after the head, in order.
    queued: VecDeque<OutboundKey>,
}

impl WaitingChat {
    /// Makes the next queued message the head. Returns `false` if there is none.
    fn advance(&mut self) -> bool {
        let Some(next) = self.queued.pop_front() else {
            return false;
        };
        let now = Instant::now();
        let until = if self.is_inherited {
            now + INHERITED_WAIT
        } else {
            self.until.max(now) + RETRY_SPACING
        };
        (
            self.head,
            self.tries,
            self.since,
            self.until,
            self.is_overdue,
        ) = (next, 0, now, until, false);
        true
    }

    /// Returns the index of `key` in the queue after the head, and appends it if it is missing.
    fn queue_position(&mut self, key: &OutboundKey) -> usize {
        let known = self.queued.iter().position(|known| known == key);
        known.unwrap_or_else(|| {
            if self.queued.len() < MAX_QUEUED {
                self.queued.push_back(key.clone());
            }
            self.queued.len() - 1
        })
    }
}

/// Failed tries of a message so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryRecord {
    /// Number of failed tries.
    pub(crate) tries: u32,
    /// Time of the first failed try.
    pub(crate) since: Instant,
}

/// The chats that wait for a retry.
#[derive(Debug, Default)]
pub(crate) struct WaitingChats {
    chats: HashMap<ChatId, WaitingChat>,
}

impl WaitingChats {
    /// Returns how long `message` has to wait for an earlier one of its chat; `None` if it may be
    /// sent.
    pub(crate) fn remaining_wait(&mut self, message: &OutboundMessage) -> Option<Duration> {
        let now = Instant::now();
        let chat = self.chats.get_mut(&message.chat_id)?;
        if chat.head != message.key && now >= chat.until + GRACE {
            if !chat.is_overdue {
                (chat.is_overdue, chat.until) = (true, now);
            } else if !chat.advance() {
                self.chats.remove(&message.chat_id);
                return None;
            }
        }
        if chat.head == message.key {
            return None;
        }
        let queue_position = u32::try_from(chat.queue_position(&message.key))
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        if chat.is_inherited || chat.is_overdue {
            return Some(POLL_INTERVAL);
        }
        Some(
            chat.until.saturating_duration_since(now)
                + RETRY_SPACING.saturating_mul(queue_position),
        )
    }

    /// Records a `message` left from before the start. Called for all of them, oldest first. A chat
    /// waits only for a message that was tried: one that never was is due now.
    pub(crate) fn inherit(&mut self, message: &OutboundMessage, was_tried: bool) {
        if let Some(chat) = self.chats.get_mut(&message.chat_id) {
            chat.queue_position(&message.key);
            return;
        }
        if !was_tried {
            return;
        }
        let now = Instant::now();
        let chat = WaitingChat {
            head: message.key.clone(),
            tries: 0,
            since: now,
            until: now + INHERITED_WAIT,
            is_inherited: true,
            is_overdue: false,
            queued: VecDeque::new(),
        };
        self.chats.insert(message.chat_id.clone(), chat);
    }

    /// Queues the notice `notice` about `message` directly after it, before other waiting messages.
    pub(crate) fn queue_notice(&mut self, message: &OutboundMessage, notice: OutboundKey) {
        if let Some(chat) = self.chats.get_mut(&message.chat_id)
            && chat.head == message.key
        {
            chat.queued.push_front(notice);
        }
    }

    /// Returns the failed tries of `message`, including this one.
    pub(crate) fn next_record(&self, message: &OutboundMessage) -> RetryRecord {
        match self
            .chats
            .get(&message.chat_id)
            .filter(|chat| chat.head == message.key && chat.tries > 0)
        {
            Some(chat) => RetryRecord {
                tries: chat.tries.saturating_add(1),
                since: chat.since,
            },
            None => RetryRecord {
                tries: 1,
                since: Instant::now(),
            },
        }
    }

    /// Makes the chat wait for `message`, which is retried after `pause`.
    pub(crate) fn wait(&mut self, message: &OutboundMessage, record: RetryRecord, pause: Duration) {
        let now = Instant::now();
        if self.chats.len() >= MAX_CHATS {
            self.chats.retain(|_, chat| now < chat.until + GRACE);
        }
        let RetryRecord { tries, since } = record;
        // Messages queued after it stay queued.
        let queued = self
            .chats
            .remove(&message.chat_id)
            .filter(|chat| chat.head == message.key);
        let queued = queued.map(|chat| chat.queued).unwrap_or_default();
        let head = message.key.clone();
        let chat = WaitingChat {
            head,
            tries,
            since,
            until: now + pause,
            is_inherited: false,
            is_overdue: false,
            queued,
        };
        self.chats.insert(message.chat_id.clone(), chat);
    }

    /// Removes the settled `message`; if it was the head, the next one takes its place.
    pub(crate) fn settled(&mut self, message: &OutboundMessage) {
        let Some(chat) = self.chats.get_mut(&message.chat_id) else {
            return;
        };
        if chat.head == message.key {
            if !chat.advance() {
                self.chats.remove(&message.chat_id);
            }
        } else {
            chat.queued.retain(|key| *key != message.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{InboundMessage, OutboundKind};

    use super::*;

    fn message(position: u32) -> OutboundMessage {
        let key = OutboundKey {
            turn: "turn".into(),
            position,
        };
        let inbound = InboundMessage::text("chat", "ann", "1", "");
        OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, String::new())
    }

    fn may_go(waiting: &mut WaitingChats, position: u32) -> bool {
        waiting.remaining_wait(&message(position)).is_none()
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_messages_keep_their_order() {
        let mut waiting = WaitingChats::default();
        assert!(may_go(&mut waiting, 0));
        let record = waiting.next_record(&message(0));
        waiting.wait(&message(0), record, Duration::from_secs(1));
        assert_eq!(
            waiting.remaining_wait(&message(1)),
            Some(Duration::from_secs(1) + RETRY_SPACING)
        );
        assert_eq!(
            waiting.remaining_wait(&message(2)),
            Some(Duration::from_secs(1) + 2 * RETRY_SPACING)
        );
        waiting.settled(&message(0));
        // A newer message comes before the second one is due.
        assert_eq!(
            [3, 2, 1].map(|position| may_go(&mut waiting, position)),
            [false, false, true]
        );
        waiting.settled(&message(1));
        assert_eq!(
            [3, 2].map(|position| may_go(&mut waiting, position)),
            [false, true]
        );
        waiting.settled(&message(2));
        waiting.settled(&message(3));
        assert!(waiting.chats.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn vanished_message_is_skipped_after_a_grace_period() {
        let mut waiting = WaitingChats::default();
        for position in 0..3 {
            waiting.inherit(&message(position), position == 0);
        }
        assert!(!may_go(&mut waiting, 1) && may_go(&mut waiting, 0));
        for (head, second) in [(1, 2), (2, 3)] {
            tokio::time::advance(INHERITED_WAIT + GRACE).await;
            assert!(
                !may_go(&mut waiting, second) && !may_go(&mut waiting, head),
                "it is noticed"
            );
            tokio::time::advance(GRACE).await;
            assert!(!may_go(&mut waiting, second) && may_go(&mut waiting, head));
        }
        tokio::time::advance(INHERITED_WAIT + GRACE).await;
        assert!(!may_go(&mut waiting, 3));
        tokio::time::advance(GRACE).await;
        assert!(may_go(&mut waiting, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn busy_worker_keeps_the_order() {
        let mut waiting = WaitingChats::default();
        let record = waiting.next_record(&message(0));
        waiting.wait(&message(0), record, Duration::from_secs(1));
        // The worker was busy with another chat all the time and already held the second message.
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(
            [1, 2, 0].map(|position| may_go(&mut waiting, position)),
            [false, false, true]
        );
        waiting.settled(&message(0));
        assert_eq!(
            [2, 1].map(|position| may_go(&mut waiting, position)),
            [false, true]
        );
    }
}
