//! Which chats of a channel wait for a message that has to be tried again.
//!
//! Decision: what waits lies in the ledger, not here, so nothing is held in memory and a crash
//! leaves no doubt about it. Here is only who is first in each such chat: messages behind it go
//! back to the ledger until just after the next try, so that a chat stays in order while all
//! other chats go on. What waits from before the start is found by looking into the ledger once;
//! when it is due only the ledger knows.

use std::collections::HashMap;
use std::time::Duration;

use nanobot_channel::{ChatId, OutboundKey, OutboundMessage};
use tokio::time::Instant;

/// How long after its time the first one is waited for: it may have been settled by a person.
const GRACE: Duration = Duration::from_secs(5);
/// The distance between messages that wait behind the first.
const STEP: Duration = Duration::from_millis(20);
/// How long one is waited for that waits from before the start.
const INHERITED: Duration = Duration::from_mins(1);
/// How often messages behind such a one ask again.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Above this many chats, those whose time has passed are forgotten.
const CHATS: usize = 1024;

/// The message a chat waits for.
#[derive(Debug)]
struct First {
    key: OutboundKey,
    /// How often it was tried in vain.
    tries: u32,
    /// When it was tried first.
    since: Instant,
    /// When it is tried next.
    until: Instant,
    /// How many were sent back behind it since the last try.
    behind: u32,
    /// It waits from before the start, so that `until` says only how long it is waited for.
    is_inherited: bool,
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
    chats: HashMap<ChatId, First>,
}

impl Waiting {
    /// How long `message` has to stand back behind another one of its chat; `None` when it may go.
    pub(crate) fn stand_back(&mut self, message: &OutboundMessage) -> Option<Duration> {
        let now = Instant::now();
        let first = self.chats.get_mut(&message.chat_id)?;
        if first.key == message.key || now >= first.until + GRACE {
            return None;
        }
        if first.is_inherited {
            return Some(ASK_AGAIN);
        }
        first.behind = first.behind.saturating_add(1);
        Some(first.until.saturating_duration_since(now) + STEP.saturating_mul(first.behind))
    }

    /// `message` waits from before the start: its chat waits for it, if it is the first one there.
    pub(crate) fn inherit(&mut self, message: &OutboundMessage) {
        let now = Instant::now();
        self.chats.entry(message.chat_id.clone()).or_insert_with(|| First {
            key: message.key.clone(),
            tries: 0,
            since: now,
            until: now + INHERITED,
            behind: 0,
            is_inherited: true,
        });
    }

    /// How `message` has fared, this failure included.
    pub(crate) fn failed_again(&self, message: &OutboundMessage) -> Record {
        match self.chats.get(&message.chat_id).filter(|first| first.key == message.key) {
            Some(first) => Record { tries: first.tries.saturating_add(1), since: first.since },
            None => Record { tries: 1, since: Instant::now() },
        }
    }

    /// `message` is tried again after `pause`, and its chat waits for it.
    pub(crate) fn wait(&mut self, message: &OutboundMessage, record: Record, pause: Duration) {
        let now = Instant::now();
        if self.chats.len() >= CHATS {
            self.chats.retain(|_, first| now < first.until + GRACE);
        }
        let Record { tries, since } = record;
        let first = First { key: message.key.clone(), tries, since, until: now + pause, behind: 0, is_inherited: false };
        self.chats.insert(message.chat_id.clone(), first);
    }

    /// `message` is settled: its chat goes on.
    pub(crate) fn settled(&mut self, message: &OutboundMessage) {
        if self.chats.get(&message.chat_id).is_some_and(|first| first.key == message.key) {
            self.chats.remove(&message.chat_id);
        }
    }
}
