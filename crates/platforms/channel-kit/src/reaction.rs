//! Reactions to messages that are worked on: set at receipt, replaced or removed at the turn's end.
//!
//! Decision: messages that arrive during a turn are taken into it, so the end of a turn is the end
//! for every message of its conversation. Changes to one message are made in order, so that a
//! reaction that is set late never stays. The record is bounded and in memory only: after a
//! restart, the message that the turn answers is the only one known.
//!
//! Reactions are added one at a time and not faster than [`ADD_INTERVAL`], because platforms allow
//! few a second, and a flood of messages has to be received first. While one waits, a later message
//! of its conversation takes its place: the reaction says that everything up to there was received.
//! One that waits until its turn has ended, or until many later messages have come, is not added at
//! all.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    CancellationToken, ChannelError, ChatId, DeliveryContext, OutboundMessage, TurnEnds,
    async_trait,
};
use tokio::time::Instant;

use crate::BackgroundWork;
use crate::call::{CallError, Refusal};

/// Most messages with reactions; those of the oldest are removed first.
const REMEMBERED: usize = 256;
/// Shortest time between the additions of two reactions in a channel.
const ADD_INTERVAL: Duration = Duration::from_millis(50);
/// Most calls for one change: a rate limit is waited for once.
const TRIES: usize = 2;

/// Calls of a platform that change reactions.
pub trait Reactor: Send + Sync + 'static {
    /// The address of a message.
    type Message: Clone + Send + Sync + 'static;
    /// The platform's refusals.
    type Refusal: Refusal;

    /// Adds a reaction. Succeeds if it is there already.
    fn add(
        &self,
        message: &Self::Message,
        emoji: &str,
    ) -> impl Future<Output = Result<(), CallError<Self::Refusal>>> + Send;

    /// Removes a reaction. Succeeds if there is none.
    fn remove(
        &self,
        message: &Self::Message,
        emoji: &str,
    ) -> impl Future<Output = Result<(), CallError<Self::Refusal>>> + Send;

    /// Returns the message that a turn answers, for turns that began before a restart. `None` if
    /// the platform leaves such messages as they are.
    fn answered_message(&self, end: &OutboundMessage) -> Option<Self::Message>;
}

/// Emoji of a channel; an empty one is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReactionEmoji {
    /// Shown from the receipt to the end of the turn.
    pub received: String,
    /// Added if the turn lasts longer than `delay`.
    pub working: String,
    /// Time before `working` is added.
    pub delay: Duration,
    /// Shown after the end of the turn.
    pub done: String,
    /// Time after which the turn counts as ended, because its end may not be reported.
    pub limit: Option<Duration>,
}

/// Reactions of one channel. Clones share their messages.
pub struct Reactions<R: Reactor>(Arc<SharedReactions<R>>);

struct SharedReactions<R: Reactor> {
    reactor: R,
    emoji: ReactionEmoji,
    marked: Mutex<VecDeque<Arc<Marked<R::Message>>>>,
    /// Held while a reaction is added: the time before which the next one is not.
    adding: tokio::sync::Mutex<Instant>,
}

/// A message that carries reactions, or will.
struct Marked<M> {
    chat: ChatId,
    thread: Option<String>,
    message: Mutex<MarkedMessage<M>>,
    ended: CancellationToken,
    /// Emoji to remove at the end. Locked while one is set or removed.
    shown: tokio::sync::Mutex<Vec<String>>,
}

/// The address of a marked message.
struct MarkedMessage<M> {
    address: M,
    /// `true` once a call was about it: then no later message takes its place.
    is_final: bool,
}

impl<M: Clone> Marked<M> {
    fn is_of(&self, chat: &ChatId, thread: Option<&String>) -> bool {
        self.chat == *chat && self.thread.as_ref() == thread
    }

    /// Puts a later message in the place of this one. `false` if it is too late.
    fn replace(&self, address: &M) -> bool {
        let mut message = self.message();
        if !message.is_final {
            message.address = address.clone();
        }
        !message.is_final
    }

    /// Returns the address for a call.
    fn address(&self) -> M {
        let mut message = self.message();
        message.is_final = true;
        message.address.clone()
    }

    fn message(&self) -> MutexGuard<'_, MarkedMessage<M>> {
        self.message.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Reactor> fmt::Debug for Reactions<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactions")
            .field("emoji", &self.0.emoji)
            .finish_non_exhaustive()
    }
}

impl<R: Reactor> Clone for Reactions<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Reactor> Reactions<R> {
    /// Creates the reactions of a channel; none are set yet.
    #[must_use]
    pub fn new(reactor: R, emoji: ReactionEmoji) -> Self {
        Self(Arc::new(SharedReactions {
            reactor,
            emoji,
            marked: Mutex::default(),
            adding: tokio::sync::Mutex::new(Instant::now()),
        }))
    }

    /// Returns the handle of [`nanobot_channel::Channel::turn_ends`]; `None` if no emoji is shown.
    #[must_use]
    pub fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.is_used().then_some(self)
    }

    /// Shows that a message is worked on, until the [end](Self::end) of its turn. Returns at once;
    /// does nothing while the channel does not run.
    pub fn begin(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
        message: R::Message,
        background: &BackgroundWork,
    ) {
        if !self.is_used() {
            return;
        }
        let thread = delivery.thread.as_ref();
        let (marked, forgotten) = {
            let mut all = self.0.marked();
            let mut same = all.iter().filter(|marked| marked.is_of(chat, thread));
            if same.any(|marked| marked.replace(&message)) {
                return;
            }
            let marked = Arc::new(Marked {
                chat: chat.clone(),
                thread: thread.cloned(),
                message: Mutex::new(MarkedMessage {
                    address: message,
                    is_final: false,
                }),
                ended: CancellationToken::new(),
                shown: tokio::sync::Mutex::default(),
            });
            all.push_back(Arc::clone(&marked));
            let is_full = all.len() > REMEMBERED;
            (marked, all.pop_front_if(|_| is_full))
        };
        if let Some(forgotten) = forgotten {
            let shared = Arc::clone(&self.0);
            background.spawn(async move { shared.clear(&forgotten).await });
        }
        let shared = Arc::clone(&self.0);
        background.spawn(async move { shared.show(&marked).await });
    }

    /// Ends the reactions in a conversation. `false` if no message of it carries any.
    pub async fn end(&self, chat: &ChatId, delivery: &DeliveryContext) -> bool {
        let thread = delivery.thread.as_ref();
        let ended: Vec<_> = {
            let mut all = self.0.marked();
            let is_meant = |marked: &Arc<Marked<_>>| marked.is_of(chat, thread);
            let ended = all.iter().filter(|marked| is_meant(marked)).cloned();
            let ended = ended.collect();
            all.retain(|marked| !is_meant(marked));
            ended
        };
        for marked in &ended {
            self.0.finish(marked).await;
        }
        !ended.is_empty()
    }

    fn is_used(&self) -> bool {
        let emoji = &self.0.emoji;
        let all = [&emoji.received, &emoji.working, &emoji.done];
        all.into_iter().any(|emoji| !emoji.is_empty())
    }
}

#[async_trait]
impl<R: Reactor> TurnEnds for Reactions<R> {
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        if !self.end(&end.chat_id, &end.delivery).await
            && let Some(message) = self.0.reactor.answered_message(end)
        {
            let ReactionEmoji {
                received, working, ..
            } = &self.0.emoji;
            let shown = [received, working].map(String::clone).to_vec();
            self.0.replace(&message, shown).await;
        }
        Ok(())
    }
}

impl<R: Reactor> SharedReactions<R> {
    fn marked(&self) -> MutexGuard<'_, VecDeque<Arc<Marked<R::Message>>>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn show(&self, marked: &Marked<R::Message>) {
        let emoji = &self.emoji;
        self.add(marked, &emoji.received).await;
        if !emoji.working.is_empty() {
            let ended = marked.ended.cancelled();
            if tokio::time::timeout(emoji.delay, ended).await.is_ok() {
                return;
            }
            self.add(marked, &emoji.working).await;
        }
        if let Some(limit) = emoji.limit
            && tokio::time::timeout(limit, marked.ended.cancelled())
                .await
                .is_err()
        {
            self.finish(marked).await;
        }
    }

    async fn add(&self, marked: &Marked<R::Message>, emoji: &str) {
        if emoji.is_empty() {
            // Nothing waits, so later messages are marked for themselves.
            marked.address();
            return;
        }
        let mut next = self.adding.lock().await;
        tokio::time::sleep_until(*next).await;
        let mut shown = marked.shown.lock().await;
        if !marked.ended.is_cancelled() {
            // Removed at the end even if it was refused: the refusal may be of an earlier one.
            shown.push(emoji.to_owned());
            self.change(&marked.address(), emoji, true).await;
            *next = Instant::now() + ADD_INTERVAL;
        }
    }

    /// Removes what is shown at a message that is forgotten before its turn ends.
    async fn clear(&self, marked: &Marked<R::Message>) {
        marked.ended.cancel();
        let shown = std::mem::take(&mut *marked.shown.lock().await);
        self.remove_all(&marked.address(), shown).await;
    }

    async fn finish(&self, marked: &Marked<R::Message>) {
        if marked.ended.is_cancelled() {
            return;
        }
        marked.ended.cancel();
        let shown = std::mem::take(&mut *marked.shown.lock().await);
        self.replace(&marked.address(), shown).await;
    }

    async fn replace(&self, message: &R::Message, shown: Vec<String>) {
        self.remove_all(message, shown).await;
        self.change(message, &self.emoji.done, true).await;
    }

    async fn remove_all(&self, message: &R::Message, shown: Vec<String>) {
        for emoji in shown {
            self.change(message, &emoji, false).await;
        }
    }

    /// Adds or removes a reaction. A message without it is no failure of the channel.
    async fn change(&self, message: &R::Message, emoji: &str, is_added: bool) {
        if emoji.is_empty() {
            return;
        }
        for _ in 0..TRIES {
            let outcome = if is_added {
                self.reactor.add(message, emoji).await
            } else {
                self.reactor.remove(message, emoji).await
            };
            let Err(error) = outcome else { return };
            tracing::debug!(%error, "a reaction could not be set or removed");
            let Some(pause) = error.retry_after() else {
                return;
            };
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[derive(Clone, Debug)]
    struct No;

    impl fmt::Display for No {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no")
        }
    }

    impl Refusal for No {
        fn to_channel_error(&self) -> ChannelError {
            ChannelError::Refused("no".to_owned())
        }
    }

    /// Records its calls; the first one fails with `limited`.
    #[derive(Clone, Default)]
    struct Calls {
        log: Arc<Mutex<Vec<String>>>,
        limited: Arc<Mutex<Option<Duration>>>,
    }

    impl Calls {
        fn note(&self, call: &str, message: u8, emoji: &str) -> Result<(), CallError<No>> {
            let limited = self.limited.lock().unwrap().take();
            self.log
                .lock()
                .unwrap()
                .push(format!("{call} {message} {emoji}"));
            limited.map_or(Ok(()), |pause| Err(CallError::RateLimited(pause)))
        }

        fn taken(&self) -> Vec<String> {
            std::mem::take(&mut self.log.lock().unwrap())
        }
    }

    impl Reactor for Calls {
        type Message = u8;
        type Refusal = No;

        async fn add(&self, message: &u8, emoji: &str) -> Result<(), CallError<No>> {
            self.note("add", *message, emoji)
        }

        async fn remove(&self, message: &u8, emoji: &str) -> Result<(), CallError<No>> {
            self.note("remove", *message, emoji)
        }

        fn answered_message(&self, _end: &OutboundMessage) -> Option<u8> {
            None
        }
    }

    fn emoji() -> ReactionEmoji {
        ReactionEmoji {
            received: "eyes".to_owned(),
            working: "wrench".to_owned(),
            delay: Duration::from_secs(2),
            done: "ok".to_owned(),
            limit: Some(Duration::from_mins(30)),
        }
    }

    fn stage() -> (Calls, BackgroundWork, ChatId) {
        let chat = ChatId::from("C1");
        (Calls::default(), BackgroundWork::default(), chat)
    }

    fn delivery(thread: Option<&str>) -> DeliveryContext {
        DeliveryContext {
            thread: thread.map(str::to_owned),
            ..DeliveryContext::default()
        }
    }

    /// Runs `work` while a channel runs.
    async fn running(background: &BackgroundWork, work: impl Future<Output = ()> + Send) {
        let assistant = Arc::new(nanobot_testkit::Assistant::new("eve"));
        let context = assistant.context();
        let work = async {
            work.await;
            Ok(())
        };
        background.during(&context, work).await.unwrap();
    }

    async fn seconds(count: u64) {
        tokio::time::sleep(Duration::from_secs(count)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn turn_end_finishes_reactions_of_its_conversation() {
        let (calls, background, chat) = stage();
        let reactions = Reactions::new(calls.clone(), emoji());
        running(&background, async {
            for (thread, message) in [(Some("t"), 1), (None, 2), (Some("t"), 3)] {
                reactions.begin(&chat, &delivery(thread), message, &background);
                tokio::time::sleep(ADD_INTERVAL).await;
            }
            seconds(1).await;
            assert_eq!(calls.taken(), ["add 1 eyes", "add 2 eyes", "add 3 eyes"]);
            assert!(reactions.end(&chat, &delivery(Some("t"))).await);
            let ended = ["remove 1 eyes", "add 1 ok", "remove 3 eyes", "add 3 ok"];
            assert_eq!(calls.taken(), ended);
            assert!(!reactions.end(&chat, &delivery(Some("t"))).await);
            seconds(2).await;
            assert_eq!(calls.taken(), ["add 2 wrench"]);
            seconds(1800).await;
            let ended = ["remove 2 eyes", "remove 2 wrench", "add 2 ok"];
            assert_eq!(calls.taken(), ended, "no end was reported");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limit_delays_and_early_end_adds_no_late_reaction() {
        let (calls, background, chat) = stage();
        let reactions = Reactions::new(calls.clone(), emoji());
        *calls.limited.lock().unwrap() = Some(Duration::from_secs(9));
        running(&background, async {
            reactions.begin(&chat, &delivery(None), 1, &background);
            seconds(1).await;
            assert!(reactions.end(&chat, &delivery(None)).await);
            let ended = ["add 1 eyes", "add 1 eyes", "remove 1 eyes", "add 1 ok"];
            assert_eq!(calls.taken(), ended);
            seconds(60).await;
            assert!(calls.taken().is_empty());
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn burst_is_marked_at_its_newest_message_at_a_steady_pace() {
        let (calls, background, chat) = stage();
        let reactions = Reactions::new(calls.clone(), emoji());
        running(&background, async {
            for message in 1..=9 {
                let thread = ["a", "b"][usize::from(message % 2)];
                reactions.begin(&chat, &delivery(Some(thread)), message, &background);
                tokio::time::sleep(ADD_INTERVAL / 10).await;
            }
            assert_eq!(calls.taken(), ["add 1 eyes"]);
            seconds(1).await;
            assert_eq!(calls.taken(), ["add 8 eyes", "add 9 eyes"]);
            assert!(reactions.end(&chat, &delivery(Some("b"))).await);
            let ended = ["remove 1 eyes", "add 1 ok", "remove 9 eyes", "add 9 ok"];
            assert_eq!(calls.taken(), ended);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_message_is_done_where_no_receipt_is_shown() {
        let (calls, background, chat) = stage();
        let only_done = ReactionEmoji {
            done: "ok".to_owned(),
            ..ReactionEmoji::default()
        };
        let reactions = Reactions::new(calls.clone(), only_done);
        running(&background, async {
            for message in [1, 2] {
                reactions.begin(&chat, &delivery(None), message, &background);
                seconds(1).await;
            }
            assert!(reactions.end(&chat, &delivery(None)).await);
            assert_eq!(calls.taken(), ["add 1 ok", "add 2 ok"]);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn flood_is_marked_one_by_one_and_leaves_no_reaction() {
        let (calls, background, chat) = stage();
        let only_received = ReactionEmoji {
            received: "eyes".to_owned(),
            ..ReactionEmoji::default()
        };
        let reactions = Reactions::new(calls.clone(), only_received);
        *calls.limited.lock().unwrap() = Some(Duration::from_secs(9));
        running(&background, async {
            reactions.begin(&chat, &delivery(None), 0, &background);
            seconds(1).await;
            let threads: Vec<_> = (0..REMEMBERED + 9)
                .map(|thread| thread.to_string())
                .collect();
            for thread in &threads {
                reactions.begin(&chat, &delivery(Some(thread)), 1, &background);
            }
            seconds(1).await;
            assert_eq!(calls.taken(), ["add 0 eyes"], "the others wait");
            seconds(60).await;
            let made = calls.taken();
            assert_eq!(
                made[..2],
                ["add 0 eyes", "remove 0 eyes"],
                "it was forgotten"
            );
            assert_eq!(made[2..], vec!["add 1 eyes"; REMEMBERED]);
            for thread in &threads {
                reactions.end(&chat, &delivery(Some(thread))).await;
            }
            assert_eq!(calls.taken(), vec!["remove 1 eyes"; REMEMBERED]);
        })
        .await;
    }

    #[test]
    fn without_emoji_there_are_no_reactions() {
        let used = |emoji| {
            Reactions::new(Calls::default(), emoji)
                .turn_ends()
                .is_some()
        };
        assert!(used(emoji()) && !used(ReactionEmoji::default()));
    }
}
