//! The replies that QQ takes to a message: a few, for a while.
//!
//! Decision: replies are counted in memory. After a restart the count is unknown; QQ refuses what
//! is too much, and it is sent as a message of its own then. The last reply to a message is kept
//! for its answer: messages about the work in progress do not get it, and messages that answer
//! nothing are sent alone.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::target::Place;

/// Most messages that are remembered.
const REMEMBERED: usize = 1024;

/// Replies and the time for them, a little less than QQ allows.
const TO_PERSON: (usize, Duration) = (4, Duration::from_secs(59 * 60));
const TO_GROUP: (usize, Duration) = (5, Duration::from_secs(290));

/// The messages that can be replied to.
#[derive(Debug, Default)]
pub(crate) struct ReplyBudget(Mutex<AnsweredMessages>);

/// Messages, the oldest first.
#[derive(Debug, Default)]
struct AnsweredMessages {
    entries: VecDeque<Answered>,
    /// The ids of the messages: one is looked up for each message of a flood.
    known: HashSet<String>,
}

impl AnsweredMessages {
    /// Remembers a message, unless it is known.
    fn note(&mut self, message: &str, chat: &str) {
        if !self.known.insert(message.to_owned()) {
            return;
        }
        if self.entries.len() >= REMEMBERED
            && let Some(oldest) = self.entries.pop_front()
        {
            self.known.remove(&oldest.message);
        }
        self.entries.push_back(Answered::new(message, chat));
    }
}

/// A message and the replies to it.
#[derive(Debug)]
struct Answered {
    message: String,
    chat: String,
    received: Instant,
    /// The numbers of the replies.
    sent: Vec<u32>,
    /// `true` if QQ takes no further one.
    is_over: bool,
}

impl Answered {
    fn new(message: &str, chat: &str) -> Self {
        Self {
            message: message.to_owned(),
            chat: chat.to_owned(),
            received: Instant::now(),
            sent: Vec::new(),
            is_over: false,
        }
    }

    /// Returns the number of replies that are left.
    fn left(&self, (most, time): (usize, Duration)) -> usize {
        if self.is_over || self.received.elapsed() >= time {
            return 0;
        }
        most.saturating_sub(self.sent.len())
    }
}

/// A message that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyRequest<'a> {
    pub(crate) place: &'a Place,
    pub(crate) chat: &'a str,
    /// The message that it answers.
    pub(crate) answered: Option<&'a str>,
    /// `true` for a message that may be lost.
    pub(crate) is_lossy: bool,
    /// The number of the reply, the same for each attempt.
    pub(crate) number: u32,
}

/// The way in which a message is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplySlot {
    /// As a reply to this message.
    Reply(String),
    /// As a message of its own.
    Alone,
    /// Not at all.
    Kept,
}

impl ReplyBudget {
    /// Remembers a message that can be replied to.
    pub(crate) fn note(&self, message: &str, chat: &str) {
        self.messages().note(message, chat);
    }

    /// Takes a reply for a message. A repeated attempt gets the same one.
    pub(crate) fn take(&self, request: &ReplyRequest<'_>) -> ReplySlot {
        let limits = match request.place {
            Place::Person(_) => TO_PERSON,
            Place::Group(_) | Place::Guild(_) => TO_GROUP,
        };
        let mut messages = self.messages();
        let is_repeated = |entry: &&mut Answered| {
            entry.chat == request.chat && entry.sent.contains(&request.number)
        };
        if let Some(entry) = messages.entries.iter_mut().find(is_repeated) {
            return ReplySlot::Reply(entry.message.clone());
        }
        if let Some(answered) = request.answered {
            messages.note(answered, request.chat);
        }
        let kept = usize::from(request.is_lossy || request.answered.is_none());
        let can_be_used = |entry: &&mut Answered| {
            let is_meant = match request.answered {
                Some(answered) => entry.message == answered,
                None => entry.chat == request.chat,
            };
            is_meant && entry.left(limits) > kept
        };
        if let Some(entry) = messages.entries.iter_mut().rev().find(can_be_used) {
            entry.sent.push(request.number);
            return ReplySlot::Reply(entry.message.clone());
        }
        if request.is_lossy {
            ReplySlot::Kept
        } else {
            ReplySlot::Alone
        }
    }

    /// Records that QQ took no further reply to a message, so that this one did not count.
    pub(crate) fn exhaust(&self, message: &str, number: u32) {
        let mut messages = self.messages();
        let mut entries = messages.entries.iter_mut();
        let entry = entries.find(|entry| entry.message == message);
        if let Some(entry) = entry {
            entry.is_over = true;
            entry.sent.retain(|sent| *sent != number);
        }
    }

    fn messages(&self) -> MutexGuard<'_, AnsweredMessages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(message: &str) -> ReplySlot {
        ReplySlot::Reply(message.to_owned())
    }

    struct Chat {
        budget: ReplyBudget,
        place: Place,
    }

    impl Chat {
        fn new(place: Place) -> Self {
            let budget = ReplyBudget::default();
            budget.note("m1", "A");
            Self { budget, place }
        }

        fn take(&self, answered: Option<&str>, is_lossy: bool, number: u32) -> ReplySlot {
            self.budget.take(&ReplyRequest {
                place: &self.place,
                chat: "A",
                answered,
                is_lossy,
                number,
            })
        }
    }

    #[tokio::test]
    async fn replies_are_counted_and_the_last_is_kept_for_the_answer() {
        for (place, most) in [
            (Place::Person("A".into()), 4),
            (Place::Group("A".into()), 5),
        ] {
            let chat = Chat::new(place);
            for number in 1..most {
                assert_eq!(chat.take(Some("m1"), true, number), reply("m1"));
            }
            assert_eq!(chat.take(Some("m1"), true, 90), ReplySlot::Kept);
            assert_eq!(chat.take(None, false, 91), ReplySlot::Alone);
            assert_eq!(chat.take(Some("m1"), false, 92), reply("m1"));
            assert_eq!(chat.take(Some("m1"), false, 93), ReplySlot::Alone);
            // A repeated attempt is the same reply.
            assert_eq!(chat.take(Some("m1"), false, 92), reply("m1"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replies_end_with_their_time() {
        for (place, minutes) in [
            (Place::Person("A".into()), 59),
            (Place::Group("A".into()), 4),
        ] {
            let chat = Chat::new(place);
            tokio::time::advance(Duration::from_secs(minutes * 60 - 1)).await;
            assert_eq!(chat.take(Some("m1"), false, 1), reply("m1"));
            tokio::time::advance(Duration::from_secs(60)).await;
            assert_eq!(chat.take(Some("m1"), false, 2), ReplySlot::Alone);
        }
    }

    #[tokio::test]
    async fn other_messages_use_the_newest_message_with_replies_left() {
        let chat = Chat::new(Place::Person("A".into()));
        chat.budget.note("m2", "A");
        chat.budget.note("m3", "B");
        let taken: Vec<_> = (1..8)
            .map(|number| chat.take(None, false, number))
            .collect();
        let (one, two) = (reply("m1"), reply("m2"));
        let expected = [&two, &two, &two, &one, &one, &one, &ReplySlot::Alone];
        assert_eq!(taken.iter().collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn refused_reply_ends_those_to_its_message() {
        let chat = Chat::new(Place::Group("A".into()));
        // A message of an earlier process.
        assert_eq!(chat.take(Some("m0"), false, 1), reply("m0"));
        chat.budget.exhaust("m0", 1);
        assert_eq!(chat.take(Some("m0"), false, 1), ReplySlot::Alone);
        assert_eq!(chat.take(Some("m1"), false, 1), reply("m1"));
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let chat = Chat::new(Place::Group("A".into()));
        for number in 0..2 * REMEMBERED {
            chat.budget.note(&number.to_string(), "A");
        }
        assert_eq!(chat.budget.messages().entries.len(), REMEMBERED);
    }
}
