//! Which chats of a channel wait for a message that has to be tried again, and in which order.
//!
//! Decision: what waits lies in the ledger, not here, so no text is held in memory and a crash
//! leaves no doubt about it. Here is only who is first in each such chat and the names of those
//! behind: they go back to the ledger until just after the next try, and when the first is done
//! the next one is first, so that a chat stays in order while all other chats go on. What waits
//! from before the start is found by looking into the ledger once; when it is due only the ledger
//! knows.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use nanobot_channel::{ChatId, OutboundKey, OutboundMessage};
use tokio::time::Instant;

/// How long after its time the first one is waited for, and as long again from when that was noticed: it
/// may have been settled by a person, but the worker may as well have been busy with other chats.
const GRACE: Duration = Duration::from_secs(5);
/// The distance between messages that wait behind the first.
const STEP: Duration = Duration::from_millis(20);
/// How long one is waited for that waits from before the start.
const INHERITED: Duration = Duration::from_mins(1);
/// How often messages behind such a one ask again, and behind one that is overdue.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Above this many chats, those whose time has passed are forgotten.
const CHATS: usize = 1024;
/// How many messages behind the first are remembered; those after them keep no order.
const BEHIND: usize = 4096;

/// A chat that waits.
#[derive(Debug)]
struct Chat {
    /// The message it waits for.
    first: OutboundKey,
    /// How often that was tried in vain.
    tries: u32,
    /// When it was tried first.
    since: Instant,
    /// When it is tried next.
    until: Instant,
    /// It waits from before the start, so that `until` says only how long it is waited for.
    is_inherited: bool,
    /// It did not come in time, and is waited for once more.
    is_overdue: bool,
    /// Those behind it, in order.
    behind: VecDeque<OutboundKey>,
}

impl Chat {
    /// Makes the next message the first. `false` when there is none.
    fn advance(&mut self) -> bool {
        let Some(next) = self.behind.pop_front() else {
            return false;
        };
        let now = Instant::now();
        let until = if self.is_inherited {
            now + INHERITED
        } else {
            self.until.max(now) + STEP
        };
        (
            self.first,
            self.tries,
            self.since,
            self.until,
            self.is_overdue,
        ) = (next, 0, now, until, false);
        true
    }

    /// The place behind the first, which a message gets that has none.
    fn place(&mut self, key: &OutboundKey) -> usize {
        let known = self.behind.iter().position(|known| known == key);
        known.unwrap_or_else(|| {
            if self.behind.len() < BEHIND {
                self.behind.push_back(key.clone());
            }
            self.behind.len() - 1
        })
    }
}

/// How a message has fared so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// How often it was tried in vain.
    pub(crate) tries: u32,
    /// Since when.
    pub(crate) since: Instant,
}

/// The chats that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    chats: HashMap<ChatId, Chat>,
}

impl Waiting {
    /// How long `message` has to stand back behind another one of its chat; `None` when it may go.
    pub(crate) fn stand_back(&mut self, message: &OutboundMessage) -> Option<Duration> {
        let now = Instant::now();
        let chat = self.chats.get_mut(&message.chat_id)?;
        if chat.first != message.key && now >= chat.until + GRACE {
            if !chat.is_overdue {
                (chat.is_overdue, chat.until) = (true, now);
            } else if !chat.advance() {
                self.chats.remove(&message.chat_id);
                return None;
            }
        }
        if chat.first == message.key {
            return None;
        }
        let place = u32::try_from(chat.place(&message.key))
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        if chat.is_inherited || chat.is_overdue {
            return Some(ASK_AGAIN);
        }
        Some(chat.until.saturating_duration_since(now) + STEP.saturating_mul(place))
    }

    /// `message` waits from before the start; called for all of them, the oldest first. A chat waits
    /// for one that was tried: what never was is due now.
    pub(crate) fn inherit(&mut self, message: &OutboundMessage, was_tried: bool) {
        if let Some(chat) = self.chats.get_mut(&message.chat_id) {
            chat.place(&message.key);
            return;
        }
        if !was_tried {
            return;
        }
        let now = Instant::now();
        let chat = Chat {
            first: message.key.clone(),
            tries: 0,
            since: now,
            until: now + INHERITED,
            is_inherited: true,
            is_overdue: false,
            behind: VecDeque::new(),
        };
        self.chats.insert(message.chat_id.clone(), chat);
    }

    /// `news` is about `message`, so it comes before what waits behind that.
    pub(crate) fn follows(&mut self, message: &OutboundMessage, news: OutboundKey) {
        if let Some(chat) = self.chats.get_mut(&message.chat_id)
            && chat.first == message.key
        {
            chat.behind.push_front(news);
        }
    }

    /// How `message` has fared, this failure included.
    pub(crate) fn failed_again(&self, message: &OutboundMessage) -> Record {
        match self
            .chats
            .get(&message.chat_id)
            .filter(|chat| chat.first == message.key && chat.tries > 0)
        {
            Some(chat) => Record {
                tries: chat.tries.saturating_add(1),
                since: chat.since,
            },
            None => Record {
                tries: 1,
                since: Instant::now(),
            },
        }
    }

    /// `message` is tried again after `pause`, and its chat waits for it.
    pub(crate) fn wait(&mut self, message: &OutboundMessage, record: Record, pause: Duration) {
        let now = Instant::now();
        if self.chats.len() >= CHATS {
            self.chats.retain(|_, chat| now < chat.until + GRACE);
        }
        let Record { tries, since } = record;
        // Those behind it stay there.
        let behind = self
            .chats
            .remove(&message.chat_id)
            .filter(|chat| chat.first == message.key);
        let behind = behind.map(|chat| chat.behind).unwrap_or_default();
        let first = message.key.clone();
        let chat = Chat {
            first,
            tries,
            since,
            until: now + pause,
            is_inherited: false,
            is_overdue: false,
            behind,
        };
        self.chats.insert(message.chat_id.clone(), chat);
    }

    /// `message` is settled: the next one of its chat is first.
    pub(crate) fn settled(&mut self, message: &OutboundMessage) {
        let Some(chat) = self.chats.get_mut(&message.chat_id) else {
            return;
        };
        if chat.first == message.key {
            if !chat.advance() {
                self.chats.remove(&message.chat_id);
            }
        } else {
            chat.behind.retain(|key| *key != message.key);
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

    fn may_go(waiting: &mut Waiting, position: u32) -> bool {
        waiting.stand_back(&message(position)).is_none()
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_overtakes_those_who_stood_back() {
        let mut waiting = Waiting::default();
        assert!(may_go(&mut waiting, 0));
        let record = waiting.failed_again(&message(0));
        waiting.wait(&message(0), record, Duration::from_secs(1));
        assert_eq!(
            waiting.stand_back(&message(1)),
            Some(Duration::from_secs(1) + STEP)
        );
        assert_eq!(
            waiting.stand_back(&message(2)),
            Some(Duration::from_secs(1) + 2 * STEP)
        );
        waiting.settled(&message(0));
        // One that is new comes before the second one is due.
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
    async fn one_that_never_comes_back_is_not_waited_for_for_ever() {
        let mut waiting = Waiting::default();
        for position in 0..3 {
            waiting.inherit(&message(position), position == 0);
        }
        assert!(!may_go(&mut waiting, 1) && may_go(&mut waiting, 0));
        for (first, second) in [(1, 2), (2, 3)] {
            tokio::time::advance(INHERITED + GRACE).await;
            assert!(
                !may_go(&mut waiting, second) && !may_go(&mut waiting, first),
                "it is noticed"
            );
            tokio::time::advance(GRACE).await;
            assert!(!may_go(&mut waiting, second) && may_go(&mut waiting, first));
        }
        tokio::time::advance(INHERITED + GRACE).await;
        assert!(!may_go(&mut waiting, 3));
        tokio::time::advance(GRACE).await;
        assert!(may_go(&mut waiting, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_was_busy_lets_nobody_overtake() {
        let mut waiting = Waiting::default();
        let record = waiting.failed_again(&message(0));
        waiting.wait(&message(0), record, Duration::from_secs(1));
        // All the time it was busy with another chat, and the second one was in its hands already.
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
