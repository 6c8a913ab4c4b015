//! Text shown while it is being written: one message that is edited until the reply takes it over.
//!
//! Decision: one small task per draft owns its message and its pace, so that showing text never
//! keeps a reply waiting for longer than the one call that is under way. Drafts are decoration:
//! without a running channel, beyond the bound, or after a failed first message there is none, and
//! the reply is a message of its own. Nobody is to see half a text for ever, so a draft that a kill
//! left in a chat is deleted at the next start ([`DraftBoard::recover`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, Measure, SendRecovery, StreamId, Value};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::leftover::Leftovers;

/// How many streams are remembered, finished ones included: what comes late must not begin anew.
const REMEMBERED: usize = 128;
/// How many are shown at a time.
const LIVE: usize = 32;
/// How long a draft waits for more text.
const LONGEST_SILENCE: Duration = Duration::from_mins(10);
/// How long one call may take, and with it a reply that waits for it.
const CALL_TIME: Duration = Duration::from_secs(10);

/// Where a draft is shown, and how.
pub trait DraftPlace: Send + Sync + 'static {
    /// How the platform names a message.
    type Message: Clone + Send + Sync + 'static;

    /// The text as the platform is to get it: what fits into one message, and escaped where the
    /// platform would read it as markup. Text of nothing but blanks is not shown.
    fn visible(&self, text: &str) -> String;

    /// Sends a new message. `None` when the platform took it and did not say its name: then nothing
    /// more is shown.
    ///
    /// # Errors
    /// Why it could not be sent.
    fn begin(
        &self,
        text: &str,
    ) -> impl Future<Output = Result<Option<Self::Message>, ChannelError>> + Send;

    /// Replaces the text of the message.
    ///
    /// # Errors
    /// Why it could not be edited; it is tried again with the text that comes next.
    fn edit(
        &self,
        message: &Self::Message,
        text: &str,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// Deletes the message.
    ///
    /// # Errors
    /// Why it could not be deleted; it is tried again at the next start.
    fn remove(
        &self,
        message: &Self::Message,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// What finds the message after a restart: where it is, and what it is called there. Given to
    /// whoever deletes it then ([`DraftBoard::recover`]). `None` where it cannot be deleted.
    fn trace(&self, _message: &Self::Message) -> Option<Value> {
        None
    }
}

/// The drafts of one channel, by their streams.
#[derive(Debug)]
pub struct DraftBoard<M> {
    measure: Measure,
    limit: usize,
    entries: Mutex<VecDeque<Entry<M>>>,
    leftovers: Arc<Leftovers>,
}

#[derive(Debug)]
struct Entry<M> {
    stream: StreamId,
    text: watch::Sender<Text>,
    shown: watch::Receiver<Shown<M>>,
}

impl<M> Entry<M> {
    fn is_live(&self) -> bool {
        self.text.borrow().phase == Phase::Growing && !self.shown.borrow().is_over
    }
}

/// What shall be shown.
#[derive(Clone, Debug, Default)]
struct Text {
    text: String,
    length: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// More may come.
    #[default]
    Growing,
    /// Nothing more comes, and a reply takes the message over.
    Closed,
    /// Nothing more comes, and the message stays what it is.
    Left,
    /// Nothing more comes, and the message is to be deleted.
    Withdrawn,
    /// The message belongs to the reply now.
    Claimed,
}

/// What is shown.
#[derive(Clone, Debug)]
struct Shown<M> {
    message: Option<M>,
    trace: Option<Value>,
    is_over: bool,
}

impl<M: Clone + Send + Sync> DraftBoard<M> {
    /// A board without drafts. `limit` is how much fits into one message: of a longer text no more
    /// than is needed to see where it is cut is kept.
    #[must_use]
    pub fn new(measure: Measure, limit: usize) -> Self {
        Self {
            measure,
            limit,
            entries: Mutex::default(),
            leftovers: Arc::default(),
        }
    }

    /// Notes drafts from now on, and deletes, beside the run of `context`, those that a kill left:
    /// `delete` gets what [`DraftPlace::trace`] gave. It is asked a few times where the platform fails;
    /// an error that says [to give up](SendRecovery::GiveUp) counts as done. `account` is who the
    /// platform says we are: what was sent on behalf of another one is left alone.
    ///
    /// To be called at the begin of every run, before drafts can begin.
    pub async fn recover<T, F>(
        &self,
        context: &ChannelContext,
        account: &str,
        delete: impl Fn(T) -> F + Send + Sync + 'static,
    ) where
        T: DeserializeOwned + Clone + Send + 'static,
        F: Future<Output = Result<(), ChannelError>> + Send + 'static,
    {
        let left = self
            .leftovers
            .open(Arc::clone(&context.notes), context.tasks.clone(), account)
            .await;
        if left.is_empty() {
            return;
        }
        let (leftovers, cancel) = (Arc::clone(&self.leftovers), context.cancel.clone());
        context.tasks.spawn(async move {
            cancel
                .run_until_cancelled(leftovers.take_away(left, delete))
                .await
        });
    }

    /// Adds text to a draft. `None`, unless this begins one: then its [`DraftSlot::run`] is to be kept
    /// running.
    pub fn append(&self, stream: &StreamId, delta: &str) -> Option<DraftSlot<M>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) {
            entry
                .text
                .send_if_modified(|text| text.add(delta, self.measure, self.limit));
            return None;
        }
        if entries.iter().filter(|entry| entry.is_live()).count() >= LIVE {
            return None;
        }
        let mut text = Text::default();
        text.add(delta, self.measure, self.limit);
        Some(self.insert(&mut entries, stream, text))
    }

    /// Nothing more comes: what was not shown yet is shown. When the turn is `resuming` it stays as it
    /// is, so that from now on it is no draft that a kill leaves; otherwise a reply is to take it over.
    pub async fn close(&self, stream: &StreamId, resuming: bool) {
        let stays = {
            let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) else {
                return;
            };
            let is_closed = entry.text.send_if_modified(|text| {
                let is_growing = text.phase == Phase::Growing;
                if is_growing {
                    text.phase = if resuming { Phase::Left } else { Phase::Closed };
                }
                is_growing
            });
            if is_closed && resuming {
                entry.shown.borrow().trace.clone()
            } else {
                None
            }
        };
        if let Some(trace) = stays {
            self.leftovers.forget(&trace).await;
        }
    }

    /// Deletes what is shown of a draft, after what is under way: no reply will take it over. Deletes
    /// nothing that is a reply or was left.
    pub fn withdraw(&self, stream: &StreamId) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) else {
            return;
        };
        entry.text.send_if_modified(|text| {
            let is_draft = matches!(text.phase, Phase::Growing | Phase::Closed);
            if is_draft {
                text.phase = Phase::Withdrawn;
            }
            is_draft
        });
    }

    /// Takes the message of a draft for the reply, after what is under way. Asked again it gives the
    /// same message, because a reply may have to be sent again. `None` also when it could not be made
    /// sure that the message is never deleted as what a kill left.
    pub async fn claim(&self, stream: &StreamId) -> Option<M> {
        let mut shown = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) else {
                self.insert(
                    &mut entries,
                    stream,
                    Text {
                        phase: Phase::Claimed,
                        ..Text::default()
                    },
                );
                return None;
            };
            if entry.text.borrow().phase == Phase::Withdrawn {
                return None;
            }
            entry.text.send_modify(|text| text.phase = Phase::Claimed);
            entry.shown.clone()
        };
        // A task that was ended from outside leaves what it last said.
        let over = shown
            .wait_for(|shown| shown.is_over)
            .await
            .ok()
            .map(|shown| shown.clone());
        let Shown { message, trace, .. } = over.unwrap_or_else(|| shown.borrow().clone());
        match trace {
            Some(trace) if !self.leftovers.forget(&trace).await => None,
            _ => message,
        }
    }

    fn insert(
        &self,
        entries: &mut VecDeque<Entry<M>>,
        stream: &StreamId,
        text: Text,
    ) -> DraftSlot<M> {
        if entries.len() >= REMEMBERED {
            entries.pop_front();
        }
        let (text, reader) = watch::channel(text);
        let (writer, shown) = watch::channel(Shown {
            message: None,
            trace: None,
            is_over: false,
        });
        entries.push_back(Entry {
            stream: stream.clone(),
            text,
            shown,
        });
        DraftSlot {
            text: reader,
            shown: writer,
            leftovers: Arc::clone(&self.leftovers),
        }
    }
}

impl Text {
    fn add(&mut self, delta: &str, measure: Measure, limit: usize) -> bool {
        let takes = self.phase == Phase::Growing && self.length <= limit;
        if takes {
            self.text.push_str(delta);
            self.length += measure.of(delta);
        }
        takes
    }
}

/// The place of a new draft on the board.
#[derive(Debug)]
pub struct DraftSlot<M> {
    text: watch::Receiver<Text>,
    shown: watch::Sender<Shown<M>>,
    leftovers: Arc<Leftovers>,
}

impl<M: Clone + Send + Sync> DraftSlot<M> {
    /// Shows the text as it grows, until it is complete or claimed, with at least `interval` between
    /// two calls, and longer where the platform asks for that.
    pub async fn run<P: DraftPlace<Message = M>>(mut self, place: P, interval: Duration) {
        let mut visible = String::new();
        loop {
            let (text, phase) = {
                let current = self.text.borrow_and_update();
                (place.visible(&current.text), current.phase)
            };
            if matches!(phase, Phase::Claimed | Phase::Withdrawn) {
                break;
            }
            let mut pause = Duration::ZERO;
            if text != visible && !text.trim().is_empty() {
                let shown = tokio::time::timeout(CALL_TIME, self.show(&place, &text)).await;
                pause = interval;
                if let Err(error) =
                    shown.unwrap_or_else(|_| Err(ChannelError::Ambiguous("no answer".to_owned())))
                {
                    tracing::debug!(%error, "a draft could not be shown");
                    if let SendRecovery::Retry { after: Some(after) } = error.recovery() {
                        pause = interval.max(after);
                    }
                }
                // Without its id there may be a message all the same: a second one would stay.
                if phase != Phase::Growing || self.shown.borrow().message.is_none() {
                    break;
                }
                visible = text;
            } else if phase != Phase::Growing {
                break;
            }
            if !self.rest(pause).await {
                break;
            }
        }
        self.shown.send_modify(|shown| shown.is_over = true);
        self.outlive(&place).await;
    }

    /// Waits for what becomes of a message that grows no more. What nobody takes over is no draft any
    /// longer.
    async fn outlive<P: DraftPlace<Message = M>>(mut self, place: &P) {
        let Shown { message, trace, .. } = self.shown.borrow().clone();
        let closed = self.text.borrow().phase == Phase::Closed;
        let limit = if closed {
            LONGEST_SILENCE
        } else {
            Duration::ZERO
        };
        let settled = self
            .text
            .wait_for(|text| matches!(text.phase, Phase::Claimed | Phase::Withdrawn));
        // Whoever claims it forgets it; and a board that is gone leaves what it shows to the next one.
        let is_withdrawn = match tokio::time::timeout(limit, settled).await {
            Ok(Ok(text)) if text.phase == Phase::Withdrawn => true,
            Ok(_) => return,
            Err(_) => false,
        };
        if is_withdrawn && let Some(message) = &message {
            let removed = tokio::time::timeout(CALL_TIME, place.remove(message)).await;
            if let Err(error) =
                removed.unwrap_or_else(|_| Err(ChannelError::Ambiguous("no answer".to_owned())))
            {
                // Its note stays, so the next start deletes it.
                tracing::debug!(%error, "a draft that is no reply could not be deleted");
                return;
            }
        }
        if let Some(trace) = trace {
            self.leftovers.forget(&trace).await;
        }
    }

    async fn show<P: DraftPlace<Message = M>>(
        &self,
        place: &P,
        text: &str,
    ) -> Result<(), ChannelError> {
        let known = self.shown.borrow().message.clone();
        if let Some(message) = known {
            return place.edit(&message, text).await;
        }
        let message = place.begin(text).await?;
        let trace = message.as_ref().and_then(|message| place.trace(message));
        self.shown.send_modify(|shown| {
            shown.message = message;
            shown.trace.clone_from(&trace);
        });
        if let Some(trace) = trace {
            self.leftovers.note(trace).await;
        }
        Ok(())
    }

    /// Waits for the pause and then for news. `false` when none will come.
    async fn rest(&mut self, pause: Duration) -> bool {
        let mut watched = self.text.clone();
        tokio::select! {
            claimed = watched.wait_for(|text| text.phase == Phase::Claimed) => return claimed.is_ok(),
            () = tokio::time::sleep(pause) => {}
        }
        matches!(
            tokio::time::timeout(LONGEST_SILENCE, self.text.changed()).await,
            Ok(Ok(()))
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use nanobot_channel::TaskTracker;
    use serde_json::json;

    use super::*;
    use crate::leftover::tests::Paper;

    /// Writes down what it is asked for.
    #[derive(Clone, Debug, Default)]
    struct Chat(Arc<Mutex<Vec<String>>>);

    impl Chat {
        fn note(&self, call: &str, text: &str) {
            self.0.lock().unwrap().push(format!("{call} {text}"));
        }
    }

    impl DraftPlace for Chat {
        type Message = u8;

        fn visible(&self, text: &str) -> String {
            text.chars().take(4).collect()
        }

        async fn begin(&self, text: &str) -> Result<Option<u8>, ChannelError> {
            self.note("begin", text);
            Ok(Some(7))
        }

        async fn edit(&self, message: &u8, text: &str) -> Result<(), ChannelError> {
            self.note(&format!("edit {message}"), text);
            Ok(())
        }

        async fn remove(&self, message: &u8) -> Result<(), ChannelError> {
            self.note("remove", &message.to_string());
            Ok(())
        }

        fn trace(&self, message: &u8) -> Option<Value> {
            Some(Value::from(*message))
        }
    }

    /// A board that notes what it shows.
    async fn noting(paper: &Arc<Paper>) -> (DraftBoard<u8>, TaskTracker) {
        let (board, tasks) = (DraftBoard::new(Measure::CodePoints, 4), TaskTracker::new());
        board
            .leftovers
            .open(Arc::<Paper>::clone(paper), tasks.clone(), "bot")
            .await;
        (board, tasks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_draft_grows_up_to_the_limit_and_belongs_to_the_reply_in_the_end() {
        let (board, chat, stream) = (
            DraftBoard::new(Measure::CodePoints, 4),
            Chat::default(),
            StreamId::new("s"),
        );
        let slot = board.append(&stream, "ab").unwrap();
        let show = slot.run(chat.clone(), Duration::from_secs(1));
        let write = async {
            for delta in ["c", "de", "beyond"] {
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert!(board.append(&stream, delta).is_none(), "it is begun");
            }
            board.claim(&stream).await
        };
        let ((), claimed) = tokio::join!(show, write);
        assert_eq!(claimed, Some(7));
        assert_eq!(
            *chat.0.lock().unwrap(),
            ["begin ab", "edit 7 abc", "edit 7 abcd"]
        );
        assert!(
            board.append(&stream, "late").is_none(),
            "what comes late begins nothing"
        );
        assert_eq!(
            board.claim(&stream).await,
            Some(7),
            "asked again it is the same"
        );
    }

    #[tokio::test]
    async fn a_reply_that_came_first_leaves_no_room_for_a_draft() {
        let (board, stream) = (
            DraftBoard::<u8>::new(Measure::CodePoints, 4),
            StreamId::new("s"),
        );
        assert_eq!(board.claim(&stream).await, None);
        assert!(board.append(&stream, "late").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_draft_is_noted_until_a_reply_takes_it_or_nobody_does() {
        let second = || tokio::time::sleep(Duration::from_secs(1));
        let table: [(&str, Option<bool>, Duration, Value); 5] = [
            ("it grows", None, Duration::ZERO, json!([7])),
            ("nothing comes for long", None, LONGEST_SILENCE, Value::Null),
            (
                "the reply is to come",
                Some(false),
                Duration::ZERO,
                json!([7]),
            ),
            (
                "no reply comes for long",
                Some(false),
                LONGEST_SILENCE,
                Value::Null,
            ),
            ("tools follow", Some(true), Duration::ZERO, Value::Null),
        ];
        for (what, end, later, noted) in table {
            let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
            let (board, tasks) = noting(&paper).await;
            tasks.spawn(
                board
                    .append(&stream, "ab")
                    .unwrap()
                    .run(Chat::default(), Duration::from_secs(1)),
            );
            second().await;
            assert_eq!(paper.drafts(), json!([7]), "{what}");
            if let Some(resuming) = end {
                board.close(&stream, resuming).await;
                let stays_at_once = paper.drafts() == Value::Null;
                assert_eq!(stays_at_once, resuming, "{what}");
            }
            tokio::time::sleep(later).await;
            second().await;
            assert_eq!(paper.drafts(), noted, "{what}");
            assert_eq!(board.claim(&stream).await, Some(7), "{what}");
            assert_eq!(
                paper.drafts(),
                Value::Null,
                "{what}: what a reply may take is not to be deleted"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_draft_that_no_reply_completes_is_deleted() {
        for is_closed in [false, true] {
            let (paper, stream, chat) = (
                Arc::new(Paper::default()),
                StreamId::new("s"),
                Chat::default(),
            );
            let (board, tasks) = noting(&paper).await;
            tasks.spawn(
                board
                    .append(&stream, "ab")
                    .unwrap()
                    .run(chat.clone(), Duration::from_secs(1)),
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
            if is_closed {
                board.close(&stream, false).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            board.withdraw(&stream);
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(
                *chat.0.lock().unwrap(),
                ["begin ab", "remove 7"],
                "closed: {is_closed}"
            );
            assert_eq!(paper.drafts(), Value::Null);
            assert_eq!(board.claim(&stream).await, None, "it is gone");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_draft_that_might_be_deleted_later_becomes_no_reply() {
        let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
        let (board, tasks) = noting(&paper).await;
        tasks.spawn(
            board
                .append(&stream, "ab")
                .unwrap()
                .run(Chat::default(), Duration::from_secs(1)),
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        paper.is_full.store(true, Ordering::Relaxed);
        assert_eq!(board.claim(&stream).await, None);
        assert_eq!(paper.drafts(), json!([7]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_board_that_is_gone_leaves_its_drafts_to_the_next() {
        let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
        let (board, tasks) = noting(&paper).await;
        tasks.spawn(
            board
                .append(&stream, "ab")
                .unwrap()
                .run(Chat::default(), Duration::from_secs(1)),
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(board);
        tasks.close();
        tasks.wait().await;
        assert_eq!(paper.drafts(), json!([7]));
    }
}
