//! Text shown while it is being written: one message that is edited until the reply takes it over,
//! or a [preview](DraftPreview) that vanishes by itself.
//!
//! Decision: one small task per draft owns its message and its pace, so that showing text never
//! keeps a reply waiting for longer than the one call that is under way. Drafts are decoration:
//! without a running channel, beyond the bound, or after a failed first message there is none, and
//! the reply is a message of its own. Nobody is to see half a text for ever, so a draft that a kill
//! left in a chat is deleted at the next start ([`DraftBoard::recover`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, Measure, SendRecovery, StreamId, Value, async_trait,
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::orphaned_drafts::OrphanedDrafts;

/// Number of streams that are remembered, finished ones included: a late delta begins no new draft.
const MAX_STREAMS: usize = 128;
/// Most drafts that are shown at a time.
const MAX_LIVE: usize = 32;
/// Time that a draft waits for more text.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// Timeout of one call, and so the longest delay of a reply that waits for it.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The place of a draft, and the calls that show it.
pub trait DraftPlace: Send + Sync + 'static {
    /// The platform's name of a message.
    type Message: Clone + Send + Sync + 'static;

    /// Returns the text that the platform gets: as much as fits into one message, and escaped where
    /// the platform would read it as markup. Blank text is not shown.
    fn visible(&self, text: &str) -> String;

    /// Sends a new message. `None` if the platform accepted it without a name: then nothing more is
    /// shown.
    ///
    /// # Errors
    /// The reason why it could not be sent.
    fn begin(
        &self,
        text: &str,
    ) -> impl Future<Output = Result<Option<Self::Message>, ChannelError>> + Send;

    /// Replaces the text of the message.
    ///
    /// # Errors
    /// The reason why it could not be edited; the next text is another attempt.
    fn edit(
        &self,
        message: &Self::Message,
        text: &str,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// Deletes the message.
    ///
    /// # Errors
    /// The reason why it could not be deleted; the next start is another attempt.
    fn remove(
        &self,
        message: &Self::Message,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// Completes a message that stays without becoming a reply, because the turn goes on with tools
    /// or no reply came. Only for platforms that show a draft differently from a message.
    ///
    /// # Errors
    /// The reason why it looks like a draft for longer.
    fn leave(
        &self,
        _message: &Self::Message,
    ) -> impl Future<Output = Result<(), ChannelError>> + Send {
        async { Ok(()) }
    }

    /// Returns the address of the message after a restart, which [`DraftBoard::recover`] passes on
    /// for deletion. `None` if it cannot be deleted.
    fn locator(&self, _message: &Self::Message) -> Option<Value> {
        None
    }

    /// Returns the time between two edits in this place: the configured one, or a longer one that
    /// the platform requires here.
    fn interval(&self, configured: Duration) -> Duration {
        configured
    }

    /// Returns the preview of a place that shows text without a message. `None` if there is none,
    /// or from its first permanent refusal on: then the text is shown in a message.
    fn preview(&self) -> Option<&dyn DraftPreview> {
        None
    }
}

/// A text that is shown without a message. It vanishes by itself, so it is not recorded, not
/// deleted, and not taken over by the reply.
#[async_trait]
pub trait DraftPreview: Send + Sync {
    /// Shows a text in place of the one before, if there is one. Can be repeated.
    ///
    /// # Errors
    /// The reason why it is not shown. After an error [to give up on](SendRecovery::GiveUp) the
    /// text is shown in a message instead.
    async fn show(&self, text: &str) -> Result<(), ChannelError>;

    /// Returns the time after which an unchanged text has to be shown again, lest it vanish.
    fn refresh_interval(&self) -> Duration;
}

/// The place of a draft on a platform that shows none.
#[derive(Clone, Copy, Debug)]
pub enum NoDraft {}

impl DraftPlace for NoDraft {
    type Message = ();

    fn visible(&self, _text: &str) -> String {
        match *self {}
    }

    async fn begin(&self, _text: &str) -> Result<Option<()>, ChannelError> {
        match *self {}
    }

    async fn edit(&self, _message: &(), _text: &str) -> Result<(), ChannelError> {
        match *self {}
    }

    async fn remove(&self, _message: &()) -> Result<(), ChannelError> {
        match *self {}
    }
}

/// The drafts of one channel, by their streams.
#[derive(Debug)]
pub struct DraftBoard<M> {
    measure: Measure,
    limit: usize,
    entries: Mutex<VecDeque<BoardEntry<M>>>,
    orphans: Arc<OrphanedDrafts>,
}

#[derive(Debug)]
struct BoardEntry<M> {
    stream: StreamId,
    text: watch::Sender<Text>,
    shown: watch::Receiver<ShownDraft<M>>,
}

impl<M> BoardEntry<M> {
    fn is_live(&self) -> bool {
        self.text.borrow().phase == Phase::Growing && !self.shown.borrow().is_over
    }
}

/// The desired text.
#[derive(Clone, Debug, Default)]
struct Text {
    text: String,
    length: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// More may follow.
    #[default]
    Growing,
    /// The text is complete, and a reply takes the message over.
    Closed,
    /// The text is complete, and the message stays.
    Left,
    /// The message is to be deleted.
    Withdrawn,
    /// The message belongs to the reply.
    Claimed,
}

/// The shown message.
#[derive(Clone, Debug)]
struct ShownDraft<M> {
    message: Option<M>,
    locator: Option<Value>,
    is_over: bool,
}

impl<M: Clone + Send + Sync> DraftBoard<M> {
    /// A board without drafts. `limit` is the length of one message; longer texts are kept only as
    /// far as the cut depends on them.
    #[must_use]
    pub fn new(measure: Measure, limit: usize) -> Self {
        Self {
            measure,
            limit,
            entries: Mutex::default(),
            orphans: Arc::default(),
        }
    }

    /// Records drafts from now on, and deletes the orphans of a killed process in a task of
    /// `context`. `delete` gets the [locator](DraftPlace::locator) of a draft. It is called a few
    /// times if the platform fails; an error [to give up on](SendRecovery::GiveUp) counts as done.
    /// `account` is the platform's name for the sender: drafts of another account are left alone.
    ///
    /// To be called once per run, before its first draft.
    pub async fn recover<T, F>(
        &self,
        context: &ChannelContext,
        account: &str,
        delete: impl Fn(T) -> F + Send + Sync + 'static,
    ) where
        T: DeserializeOwned + Clone + Send + 'static,
        F: Future<Output = Result<(), ChannelError>> + Send + 'static,
    {
        let orphaned = self
            .orphans
            .open(Arc::clone(&context.notes), context.tasks.clone(), account)
            .await;
        if orphaned.is_empty() {
            return;
        }
        let (orphans, cancel) = (Arc::clone(&self.orphans), context.cancel.clone());
        context.tasks.spawn(async move {
            cancel
                .run_until_cancelled(orphans.delete_all(orphaned, delete))
                .await
        });
    }

    /// `true` from the first [`Self::recover`] on.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.orphans.is_open()
    }

    /// Waits for the first [`Self::recover`], and for at most a few seconds in all: a channel that
    /// cannot receive may still send.
    pub async fn wait_until_recorded(&self) {
        self.orphans.wait_until_open().await;
    }

    /// Adds text to a draft. `None`, unless this begins a draft: then the caller runs its
    /// [`DraftSlot::run`].
    pub fn append(&self, stream: &StreamId, delta: &str) -> Option<DraftSlot<M>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) {
            entry
                .text
                .send_if_modified(|text| text.add(delta, self.measure, self.limit));
            return None;
        }
        if entries.iter().filter(|entry| entry.is_live()).count() >= MAX_LIVE {
            return None;
        }
        let mut text = Text::default();
        text.add(delta, self.measure, self.limit);
        Some(self.insert(&mut entries, stream, text))
    }

    /// Completes a draft: the rest of its text is shown. If the turn is `resuming`, the message
    /// stays and can no longer become an orphan; otherwise a reply takes it over. A text that is in
    /// no message yet is sent before this returns, so that it precedes the next message.
    pub async fn close(&self, stream: &StreamId, resuming: bool) {
        let mut shown = {
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
            if !(is_closed && resuming) {
                return;
            }
            entry.shown.clone()
        };
        let locator = shown.borrow().locator.clone();
        if let Some(locator) = locator {
            self.orphans.remove(&locator).await;
        }
        // Without a message, the task of the draft ends soon.
        drop(shown.wait_for(|shown| shown.message.is_some()).await);
    }

    /// Deletes what is shown of a draft, after what is under way: no reply will take it over.
    /// Deletes nothing that is a reply or was left; a preview vanishes by itself.
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

    /// Takes the message of a draft for the reply with the key `reply`, after the call that is
    /// under way. Repeated calls return the same message, because a reply may have to be sent
    /// again. `None` for a preview, and if the record of drafts could not be updated, because the
    /// message might be deleted later.
    pub async fn claim(&self, stream: &StreamId, reply: &str) -> Option<M> {
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
        // A cancelled task leaves its last value.
        let over = shown
            .wait_for(|shown| shown.is_over)
            .await
            .ok()
            .map(|shown| shown.clone());
        let ShownDraft {
            message, locator, ..
        } = over.unwrap_or_else(|| shown.borrow().clone());
        match locator {
            Some(locator) if !self.orphans.take(&locator, reply).await => None,
            _ => message,
        }
    }

    /// Returns the [locator](DraftPlace::locator) of the draft that became a reply, also in an
    /// earlier process.
    pub async fn claimed_by(&self, reply: &str) -> Option<Value> {
        self.orphans.taken_by(reply).await
    }

    /// Forgets the draft that became a reply, because the reply is sent as a new message. `false`
    /// if that is not on disk: after a kill, it would be sent as a new message once more.
    pub async fn give_up(&self, reply: &str) -> bool {
        self.orphans.give_up(reply).await
    }

    fn insert(
        &self,
        entries: &mut VecDeque<BoardEntry<M>>,
        stream: &StreamId,
        text: Text,
    ) -> DraftSlot<M> {
        if entries.len() >= MAX_STREAMS {
            entries.pop_front();
        }
        let (text, reader) = watch::channel(text);
        let (writer, shown) = watch::channel(ShownDraft {
            message: None,
            locator: None,
            is_over: false,
        });
        entries.push_back(BoardEntry {
            stream: stream.clone(),
            text,
            shown,
        });
        DraftSlot {
            text: reader,
            shown: writer,
            orphans: Arc::clone(&self.orphans),
        }
    }
}

impl Text {
    fn add(&mut self, delta: &str, measure: Measure, limit: usize) -> bool {
        let accepts = self.phase == Phase::Growing && self.length <= limit;
        if accepts {
            self.text.push_str(delta);
            self.length += measure.of(delta);
        }
        accepts
    }
}

/// A new draft on the board.
#[derive(Debug)]
pub struct DraftSlot<M> {
    text: watch::Receiver<Text>,
    shown: watch::Sender<ShownDraft<M>>,
    orphans: Arc<OrphanedDrafts>,
}

impl<M: Clone + Send + Sync> DraftSlot<M> {
    /// Shows the text as it grows, until it is complete or claimed, with a pause of at least
    /// `interval` between two calls, or of the time that the platform requires.
    pub async fn run<P: DraftPlace<Message = M>>(mut self, place: P, interval: Duration) {
        let mut visible = String::new();
        let mut form = match place.preview() {
            Some(_) => Form::Preview,
            None => Form::Message,
        };
        let mut wait = Wait::Changed;
        let mut changed_at = Instant::now();
        loop {
            let (text, phase) = {
                let current = self.text.borrow_and_update();
                (place.visible(&current.text), current.phase)
            };
            let is_over = matches!(phase, Phase::Claimed | Phase::Withdrawn);
            if is_over || form.ends_at_once(phase) {
                break;
            }
            let mut pause = Duration::ZERO;
            let is_due = text != visible || wait == Wait::Stale;
            if is_due && !text.trim().is_empty() {
                let shown = self.show(&place, &mut form, &text);
                let shown = tokio::time::timeout(CALL_TIMEOUT, shown).await;
                pause = interval;
                if let Err(error) = shown.unwrap_or_else(|_| Err(no_answer())) {
                    tracing::debug!(%error, "a draft could not be shown");
                    if let SendRecovery::Retry { after: Some(after) } = error.recovery() {
                        pause = interval.max(after);
                    }
                }
                // Without an id there may still be a message, and a second one would stay.
                let is_lost = form == Form::Message && self.shown.borrow().message.is_none();
                if phase != Phase::Growing || is_lost {
                    break;
                }
                visible = text;
            } else if phase != Phase::Growing {
                break;
            }
            if wait == Wait::Changed {
                changed_at = Instant::now();
            }
            wait = self.wait(&place, form, pause, changed_at).await;
            if wait == Wait::Over {
                break;
            }
        }
        if form == Form::Preview {
            self.keep(&place).await;
        }
        self.shown.send_modify(|shown| shown.is_over = true);
        self.await_outcome(&place).await;
    }

    /// Sends the text of a preview as a message if it stays.
    async fn keep<P: DraftPlace<Message = M>>(&self, place: &P) {
        let text = {
            let current = self.text.borrow();
            if current.phase != Phase::Left {
                return;
            }
            place.visible(&current.text)
        };
        if text.trim().is_empty() {
            return;
        }
        let sent = async {
            match place.begin(&text).await? {
                Some(message) => place.leave(&message).await,
                None => Ok(()),
            }
        };
        let sent = tokio::time::timeout(CALL_TIMEOUT, sent).await;
        if let Err(error) = sent.unwrap_or_else(|_| Err(no_answer())) {
            tracing::debug!(%error, "a text before tool calls could not be sent");
        }
    }

    /// Waits for the fate of a complete message. One that no reply takes over is no draft any more.
    async fn await_outcome<P: DraftPlace<Message = M>>(mut self, place: &P) {
        let ShownDraft {
            message, locator, ..
        } = self.shown.borrow().clone();
        let closed = self.text.borrow().phase == Phase::Closed;
        let limit = if closed { IDLE_TIMEOUT } else { Duration::ZERO };
        let decided = self
            .text
            .wait_for(|text| matches!(text.phase, Phase::Claimed | Phase::Withdrawn));
        // A claim removes the record; a dropped board leaves its drafts to the next one.
        let is_withdrawn = match tokio::time::timeout(limit, decided).await {
            Ok(Ok(text)) if text.phase == Phase::Withdrawn => true,
            Ok(_) => return,
            Err(_) => false,
        };
        if let Some(message) = &message {
            let last = async {
                if is_withdrawn {
                    place.remove(message).await
                } else {
                    place.leave(message).await
                }
            };
            let ended = tokio::time::timeout(CALL_TIMEOUT, last).await;
            if let Err(error) = ended.unwrap_or_else(|_| Err(no_answer())) {
                tracing::debug!(%error, is_withdrawn, "a draft that is no reply could not be ended");
                if is_withdrawn {
                    // Its record stays, so the next start deletes it.
                    return;
                }
            }
        }
        if let Some(locator) = locator {
            self.orphans.remove(&locator).await;
        }
    }

    async fn show<P: DraftPlace<Message = M>>(
        &self,
        place: &P,
        form: &mut Form,
        text: &str,
    ) -> Result<(), ChannelError> {
        if *form == Form::Preview {
            if let Some(preview) = place.preview() {
                match preview.show(text).await {
                    Err(error) if error.recovery() == SendRecovery::GiveUp => {
                        tracing::debug!(%error, "a preview was refused; a message is shown");
                    }
                    shown => return shown,
                }
            }
            *form = Form::Message;
        }
        let known = self.shown.borrow().message.clone();
        if let Some(message) = known {
            return place.edit(&message, text).await;
        }
        let message = place.begin(text).await?;
        let locator = message.as_ref().and_then(|message| place.locator(message));
        self.shown.send_modify(|shown| {
            shown.message = message;
            shown.locator.clone_from(&locator);
        });
        if let Some(locator) = locator {
            self.orphans.add(locator).await;
        }
        Ok(())
    }

    /// Waits for the pause, and then for a change, or for the time of the next refresh.
    async fn wait<P: DraftPlace<Message = M>>(
        &mut self,
        place: &P,
        form: Form,
        pause: Duration,
        changed_at: Instant,
    ) -> Wait {
        let mut watched = self.text.clone();
        tokio::select! {
            ended = watched.wait_for(|text| form.ends_at_once(text.phase)) => {
                return if ended.is_ok() { Wait::Changed } else { Wait::Over };
            }
            () = tokio::time::sleep(pause) => {}
        }
        let idle = IDLE_TIMEOUT.saturating_sub(changed_at.elapsed());
        let refresh = match form {
            Form::Preview => place.preview().map(DraftPreview::refresh_interval),
            Form::Message => None,
        };
        let limit = refresh.map_or(idle, |refresh| refresh.min(idle));
        match tokio::time::timeout(limit, self.text.changed()).await {
            Ok(Ok(())) => Wait::Changed,
            Err(_) if limit < idle => Wait::Stale,
            Ok(Err(_)) | Err(_) => Wait::Over,
        }
    }
}

/// The form in which a text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Preview,
    Message,
}

impl Form {
    /// `true` if a phase ends the draft without waiting for a pause.
    fn ends_at_once(self, phase: Phase) -> bool {
        match phase {
            Phase::Claimed => true,
            // A message is edited or deleted, which the platform may require to wait for.
            Phase::Left | Phase::Withdrawn => self == Self::Preview,
            Phase::Growing | Phase::Closed => false,
        }
    }
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The text has changed.
    Changed,
    /// The text has to be shown again.
    Stale,
    /// Nothing more will be shown.
    Over,
}

fn no_answer() -> ChannelError {
    ChannelError::Ambiguous("no answer".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use nanobot_channel::TaskTracker;
    use serde_json::json;

    use super::*;
    use crate::orphaned_drafts::tests::Paper;

    /// Records its calls.
    #[derive(Clone, Debug, Default)]
    struct Chat(Arc<Mutex<Vec<String>>>);

    impl Chat {
        fn record(&self, call: &str, text: &str) {
            self.0.lock().unwrap().push(format!("{call} {text}"));
        }
    }

    impl DraftPlace for Chat {
        type Message = u8;

        fn visible(&self, text: &str) -> String {
            text.chars().take(4).collect()
        }

        async fn begin(&self, text: &str) -> Result<Option<u8>, ChannelError> {
            self.record("begin", text);
            Ok(Some(7))
        }

        async fn edit(&self, message: &u8, text: &str) -> Result<(), ChannelError> {
            self.record(&format!("edit {message}"), text);
            Ok(())
        }

        async fn remove(&self, message: &u8) -> Result<(), ChannelError> {
            self.record("remove", &message.to_string());
            Ok(())
        }

        async fn leave(&self, message: &u8) -> Result<(), ChannelError> {
            self.record("leave", &message.to_string());
            Err(ChannelError::Unavailable("no".to_owned()))
        }

        fn locator(&self, message: &u8) -> Option<Value> {
            Some(Value::from(*message))
        }
    }

    /// A chat that shows previews. Its script holds the outcomes of the next ones.
    #[derive(Clone, Debug, Default)]
    struct PreviewChat {
        chat: Chat,
        script: Arc<Mutex<VecDeque<ChannelError>>>,
    }

    impl PreviewChat {
        fn failing(script: impl IntoIterator<Item = ChannelError>) -> Self {
            let chat = Self::default();
            chat.script.lock().unwrap().extend(script);
            chat
        }

        fn calls(&self) -> Vec<String> {
            self.chat.0.lock().unwrap().clone()
        }
    }

    impl DraftPlace for PreviewChat {
        type Message = u8;

        fn visible(&self, text: &str) -> String {
            self.chat.visible(text)
        }

        async fn begin(&self, text: &str) -> Result<Option<u8>, ChannelError> {
            self.chat.begin(text).await
        }

        async fn edit(&self, message: &u8, text: &str) -> Result<(), ChannelError> {
            self.chat.edit(message, text).await
        }

        async fn remove(&self, message: &u8) -> Result<(), ChannelError> {
            self.chat.remove(message).await
        }

        fn locator(&self, message: &u8) -> Option<Value> {
            self.chat.locator(message)
        }

        fn preview(&self) -> Option<&dyn DraftPreview> {
            Some(self)
        }
    }

    #[async_trait]
    impl DraftPreview for PreviewChat {
        async fn show(&self, text: &str) -> Result<(), ChannelError> {
            self.chat.record("preview", text);
            self.script.lock().unwrap().pop_front().map_or(Ok(()), Err)
        }

        fn refresh_interval(&self) -> Duration {
            Duration::from_secs(20)
        }
    }

    /// A draft in a chat with previews, and the board that records it.
    struct PreviewRun {
        paper: Arc<Paper>,
        board: DraftBoard<u8>,
        tasks: TaskTracker,
        chat: PreviewChat,
        stream: StreamId,
    }

    impl PreviewRun {
        /// Begins a draft, a second ago.
        async fn begin(chat: PreviewChat) -> Self {
            let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
            let (board, tasks) = recording_board(&paper).await;
            let slot = board.append(&stream, "ab").unwrap();
            tasks.spawn(slot.run(chat.clone(), Duration::from_secs(1)));
            tokio::time::sleep(Duration::from_secs(1)).await;
            Self {
                paper,
                board,
                tasks,
                chat,
                stream,
            }
        }

        /// Waits until the task of the draft has ended.
        async fn end(&self) {
            self.tasks.close();
            self.tasks.wait().await;
        }
    }

    /// A board that records its drafts.
    async fn recording_board(paper: &Arc<Paper>) -> (DraftBoard<u8>, TaskTracker) {
        let (board, tasks) = (DraftBoard::new(Measure::CodePoints, 4), TaskTracker::new());
        board
            .orphans
            .open(Arc::<Paper>::clone(paper), tasks.clone(), "bot")
            .await;
        (board, tasks)
    }

    #[tokio::test(start_paused = true)]
    async fn draft_grows_up_to_the_limit_and_is_claimed_by_the_reply() {
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
            board.claim(&stream, "reply").await
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
            board.claim(&stream, "reply").await,
            Some(7),
            "asked again it is the same"
        );
    }

    #[tokio::test]
    async fn claim_before_the_first_delta_prevents_a_draft() {
        let (board, stream) = (
            DraftBoard::<u8>::new(Measure::CodePoints, 4),
            StreamId::new("s"),
        );
        assert_eq!(board.claim(&stream, "reply").await, None);
        assert!(board.append(&stream, "late").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn draft_record_is_removed_when_claimed_or_expired() {
        let second = || tokio::time::sleep(Duration::from_secs(1));
        let table: [(&str, Option<bool>, Duration, Value); 5] = [
            ("it grows", None, Duration::ZERO, json!([7])),
            ("nothing comes for long", None, IDLE_TIMEOUT, Value::Null),
            (
                "the reply is to come",
                Some(false),
                Duration::ZERO,
                json!([7]),
            ),
            (
                "no reply comes for long",
                Some(false),
                IDLE_TIMEOUT,
                Value::Null,
            ),
            ("tools follow", Some(true), Duration::ZERO, Value::Null),
        ];
        for (what, end, later, noted) in table {
            let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
            let (board, tasks) = recording_board(&paper).await;
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
            assert_eq!(board.claim(&stream, "reply").await, Some(7), "{what}");
            assert_eq!(
                paper.drafts(),
                Value::Null,
                "{what}: what a reply may take is not to be deleted"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn draft_without_reply_is_left_once() {
        let table: [(Option<bool>, &[&str]); 3] = [
            (Some(true), &["begin ab", "leave 7"]),
            (None, &["begin ab", "leave 7"]),
            (Some(false), &["begin ab", "leave 7"]),
        ];
        for (end, calls) in table {
            let (paper, stream, chat) = (
                Arc::new(Paper::default()),
                StreamId::new("s"),
                Chat::default(),
            );
            let (board, _tasks) = recording_board(&paper).await;
            let slot = board.append(&stream, "ab").unwrap();
            let show = slot.run(chat.clone(), Duration::from_secs(1));
            let close = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if let Some(resuming) = end {
                    board.close(&stream, resuming).await;
                }
            };
            tokio::join!(show, close);
            assert_eq!(*chat.0.lock().unwrap(), calls, "{end:?}");
            assert_eq!(paper.drafts(), Value::Null, "{end:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn withdrawn_draft_is_deleted() {
        for is_closed in [false, true] {
            let (paper, stream, chat) = (
                Arc::new(Paper::default()),
                StreamId::new("s"),
                Chat::default(),
            );
            let (board, tasks) = recording_board(&paper).await;
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
            assert_eq!(board.claim(&stream, "reply").await, None, "it is gone");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn claim_fails_if_the_draft_record_stays() {
        let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
        let (board, tasks) = recording_board(&paper).await;
        tasks.spawn(
            board
                .append(&stream, "ab")
                .unwrap()
                .run(Chat::default(), Duration::from_secs(1)),
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        paper.is_full.store(true, Ordering::Relaxed);
        assert_eq!(board.claim(&stream, "reply").await, None);
        assert_eq!(paper.drafts(), json!([7]));
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_board_keeps_the_draft_records() {
        let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
        let (board, tasks) = recording_board(&paper).await;
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

    #[tokio::test(start_paused = true)]
    async fn preview_grows_and_is_not_claimed() {
        let run = PreviewRun::begin(PreviewChat::default()).await;
        assert!(run.board.append(&run.stream, "cde").is_none());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(run.paper.drafts(), Value::Null, "a preview is not recorded");
        run.board.close(&run.stream, false).await;
        assert_eq!(run.board.claim(&run.stream, "reply").await, None);
        run.end().await;
        assert_eq!(run.chat.calls(), ["preview ab", "preview abcd"]);
    }

    #[tokio::test(start_paused = true)]
    async fn unchanged_preview_is_refreshed_while_text_may_follow() {
        let run = PreviewRun::begin(PreviewChat::default()).await;
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(run.chat.calls(), ["preview ab"; 4]);
        run.board.append(&run.stream, "c");
        run.end().await;
        let calls = run.chat.calls();
        let refreshed = calls.iter().filter(|call| *call == "preview abc").count();
        // Text is waited for a limited time, and nothing is sent when it is over.
        let pauses = IDLE_TIMEOUT.as_secs() / 21;
        assert_eq!(refreshed as u64, 1 + pauses);
        assert_eq!(calls.len(), 4 + refreshed);
        assert_eq!(run.board.claim(&run.stream, "reply").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_preview_becomes_a_message() {
        let refusal = ChannelError::Refused("no previews".to_owned());
        let run = PreviewRun::begin(PreviewChat::failing([refusal])).await;
        assert_eq!(run.paper.drafts(), json!([7]));
        run.board.append(&run.stream, "c");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(run.board.claim(&run.stream, "reply").await, Some(7));
        assert_eq!(
            run.chat.calls(),
            ["preview ab", "begin ab", "edit 7 abc"],
            "a message needs no refresh"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failed_preview_is_shown_again_after_the_pause() {
        let table = [
            (Duration::from_secs(30), {
                let retry_after = Duration::from_secs(30);
                ChannelError::RateLimited { retry_after }
            }),
            (
                Duration::from_secs(1),
                ChannelError::Unavailable("down".to_owned()),
            ),
        ];
        for (pause, error) in table {
            let run = PreviewRun::begin(PreviewChat::failing([error])).await;
            let begun = Instant::now() - Duration::from_secs(1);
            run.board.append(&run.stream, "c");
            tokio::time::sleep_until(begun + pause - Duration::from_millis(1)).await;
            assert_eq!(run.chat.calls(), ["preview ab"], "{pause:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert_eq!(run.chat.calls(), ["preview ab", "preview abc"]);
            assert_eq!(run.board.claim(&run.stream, "reply").await, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pause_of_previews_delays_neither_reply_nor_thought() {
        let limited = || ChannelError::RateLimited {
            retry_after: Duration::from_hours(1),
        };
        let begun = Instant::now();
        let run = PreviewRun::begin(PreviewChat::failing([limited()])).await;
        assert_eq!(run.board.claim(&run.stream, "reply").await, None);
        assert_eq!(run.chat.calls(), ["preview ab"]);
        let run = PreviewRun::begin(PreviewChat::failing([limited()])).await;
        run.board.close(&run.stream, true).await;
        assert_eq!(run.chat.calls(), ["preview ab", "begin ab"]);
        assert!(begun.elapsed() < Duration::from_mins(1));
    }

    #[tokio::test(start_paused = true)]
    async fn preview_before_tool_calls_is_sent_as_a_message() {
        let run = PreviewRun::begin(PreviewChat::default()).await;
        run.board.append(&run.stream, "c");
        run.board.close(&run.stream, true).await;
        let calls = ["preview ab", "begin abc"];
        assert_eq!(run.chat.calls(), calls, "sent before the call returns");
        run.end().await;
        assert_eq!(run.paper.drafts(), Value::Null, "it is no draft");
        assert_eq!(run.chat.calls(), calls);
        // Nor is text that was never shown.
        let (board, stream, chat) = (
            DraftBoard::new(Measure::CodePoints, 4),
            StreamId::new("s"),
            PreviewChat::default(),
        );
        let slot = board.append(&stream, "ab").unwrap();
        let show = slot.run(chat.clone(), Duration::from_secs(1));
        tokio::join!(board.close(&stream, true), show);
        assert_eq!(chat.calls(), ["begin ab"]);
    }

    #[tokio::test(start_paused = true)]
    async fn withdrawn_preview_makes_no_call() {
        for is_closed in [false, true] {
            let run = PreviewRun::begin(PreviewChat::default()).await;
            if is_closed {
                run.board.close(&run.stream, false).await;
            }
            run.board.withdraw(&run.stream);
            run.end().await;
            assert_eq!(run.chat.calls(), ["preview ab"]);
            assert_eq!(run.board.claim(&run.stream, "reply").await, None);
        }
    }
}
