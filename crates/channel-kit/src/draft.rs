//! Text shown while it is being written: one message that is edited until the reply takes it over.
//!
//! Decision: one small task per draft owns its message and its pace, so that showing text never
//! keeps a reply waiting for longer than the one call that is under way. Drafts are decoration:
//! without a running channel, beyond the bound, or after a failed first message there is none, and
//! the reply is a message of its own.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, Measure, SendRecovery, StreamId};
use tokio::sync::watch;

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
    fn begin(&self, text: &str) -> impl Future<Output = Result<Option<Self::Message>, ChannelError>> + Send;

    /// Replaces the text of the message.
    ///
    /// # Errors
    /// Why it could not be edited; it is tried again with the text that comes next.
    fn edit(&self, message: &Self::Message, text: &str) -> impl Future<Output = Result<(), ChannelError>> + Send;
}

/// The drafts of one channel, by their streams.
#[derive(Debug)]
pub struct DraftBoard<M> {
    measure: Measure,
    limit: usize,
    entries: Mutex<VecDeque<Entry<M>>>,
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
    /// Nothing more comes.
    Closed,
    /// The message belongs to the reply now.
    Claimed,
}

/// What is shown.
#[derive(Clone, Debug)]
struct Shown<M> {
    message: Option<M>,
    is_over: bool,
}

impl<M: Clone + Send + Sync> DraftBoard<M> {
    /// A board without drafts. `limit` is how much fits into one message: of a longer text no more
    /// than is needed to see where it is cut is kept.
    #[must_use]
    pub fn new(measure: Measure, limit: usize) -> Self {
        Self { measure, limit, entries: Mutex::default() }
    }

    /// Adds text to a draft. `None`, unless this begins one: then its [`DraftSlot::run`] is to be kept
    /// running.
    pub fn append(&self, stream: &StreamId, delta: &str) -> Option<DraftSlot<M>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) {
            entry.text.send_if_modified(|text| text.add(delta, self.measure, self.limit));
            return None;
        }
        if entries.iter().filter(|entry| entry.is_live()).count() >= LIVE {
            return None;
        }
        let mut text = Text::default();
        text.add(delta, self.measure, self.limit);
        Some(insert(&mut entries, stream, text))
    }

    /// Nothing more comes: what was not shown yet is shown.
    pub fn close(&self, stream: &StreamId) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) {
            entry.text.send_if_modified(|text| {
                let is_growing = text.phase == Phase::Growing;
                if is_growing {
                    text.phase = Phase::Closed;
                }
                is_growing
            });
        }
    }

    /// Takes the message of a draft for the reply, after what is under way. Asked again it gives the
    /// same message, because a reply may have to be sent again.
    pub async fn claim(&self, stream: &StreamId) -> Option<M> {
        let mut shown = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) else {
                insert(&mut entries, stream, Text { phase: Phase::Claimed, ..Text::default() });
                return None;
            };
            entry.text.send_modify(|text| text.phase = Phase::Claimed);
            entry.shown.clone()
        };
        let message = shown.wait_for(|shown| shown.is_over).await.ok().and_then(|shown| shown.message.clone());
        // A task that was ended from outside leaves what it last said.
        message.or_else(|| shown.borrow().message.clone())
    }
}

fn insert<M>(entries: &mut VecDeque<Entry<M>>, stream: &StreamId, text: Text) -> DraftSlot<M> {
    if entries.len() >= REMEMBERED {
        entries.pop_front();
    }
    let (text, reader) = watch::channel(text);
    let (writer, shown) = watch::channel(Shown { message: None, is_over: false });
    entries.push_back(Entry { stream: stream.clone(), text, shown });
    DraftSlot { text: reader, shown: writer }
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
            if phase == Phase::Claimed {
                break;
            }
            let mut pause = Duration::ZERO;
            if text != visible && !text.trim().is_empty() {
                let shown = tokio::time::timeout(CALL_TIME, self.show(&place, &text)).await;
                pause = interval;
                if let Err(error) = shown.unwrap_or_else(|_| Err(ChannelError::Ambiguous("no answer".to_owned()))) {
                    tracing::debug!(%error, "a draft could not be shown");
                    if let SendRecovery::Retry { after: Some(after) } = error.recovery() {
                        pause = interval.max(after);
                    }
                }
                // Without its id there may be a message all the same: a second one would stay.
                if phase == Phase::Closed || self.shown.borrow().message.is_none() {
                    break;
                }
                visible = text;
            } else if phase == Phase::Closed {
                break;
            }
            if !self.rest(pause).await {
                break;
            }
        }
        self.shown.send_modify(|shown| shown.is_over = true);
    }

    async fn show<P: DraftPlace<Message = M>>(&self, place: &P, text: &str) -> Result<(), ChannelError> {
        let known = self.shown.borrow().message.clone();
        if let Some(message) = known {
            return place.edit(&message, text).await;
        }
        let message = place.begin(text).await?;
        self.shown.send_modify(|shown| shown.message = message);
        Ok(())
    }

    /// Waits for the pause and then for news. `false` when none will come.
    async fn rest(&mut self, pause: Duration) -> bool {
        let mut watched = self.text.clone();
        tokio::select! {
            claimed = watched.wait_for(|text| text.phase == Phase::Claimed) => return claimed.is_ok(),
            () = tokio::time::sleep(pause) => {}
        }
        matches!(tokio::time::timeout(LONGEST_SILENCE, self.text.changed()).await, Ok(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

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
    }

    #[tokio::test(start_paused = true)]
    async fn a_draft_grows_up_to_the_limit_and_belongs_to_the_reply_in_the_end() {
        let (board, chat, stream) = (DraftBoard::new(Measure::CodePoints, 4), Chat::default(), StreamId::new("s"));
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
        assert_eq!(*chat.0.lock().unwrap(), ["begin ab", "edit 7 abc", "edit 7 abcd"]);
        assert!(board.append(&stream, "late").is_none(), "what comes late begins nothing");
        assert_eq!(board.claim(&stream).await, Some(7), "asked again it is the same");
    }

    #[tokio::test]
    async fn a_reply_that_came_first_leaves_no_room_for_a_draft() {
        let (board, stream) = (DraftBoard::<u8>::new(Measure::CodePoints, 4), StreamId::new("s"));
        assert_eq!(board.claim(&stream).await, None);
        assert!(board.append(&stream, "late").is_none());
    }
}
