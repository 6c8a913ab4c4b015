//! The drafts of a channel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::{ChannelContext, ChannelError, Measure, StreamId, Value};
use tokio::sync::watch;

use super::orphans::{OrphanedDraft, delete_orphans};
use super::record::DraftRecord;
use super::slot::DraftSlot;
use super::text::{Phase, ShownDraft, Text};

/// Number of streams that are remembered, finished ones included: a late delta begins no new draft.
const MAX_STREAMS: usize = 128;
/// Most drafts that are shown at a time.
const MAX_LIVE: usize = 32;

/// The drafts of one channel, by their streams.
#[derive(Debug)]
pub struct DraftBoard<M> {
    measure: Measure,
    limit: usize,
    entries: Mutex<VecDeque<BoardEntry<M>>>,
    pub(super) record: Arc<DraftRecord>,
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

impl<M: Clone + Send + Sync> DraftBoard<M> {
    /// A board without drafts. `limit` is the length of one message; longer texts are kept only as
    /// far as the cut depends on them.
    #[must_use]
    pub fn new(measure: Measure, limit: usize) -> Self {
        Self {
            measure,
            limit,
            entries: Mutex::default(),
            record: Arc::default(),
        }
    }

    /// Records drafts from now on, and deletes those that a killed process left, in a task of
    /// `context`. `delete` is called a few times if the platform fails; an error
    /// [to give up on] counts as done. `account` is the platform's name for
    /// the sender: drafts of another account are left alone.
    ///
    /// To be called once per run, before its first draft.
    ///
    /// [to give up on]: nanobot_channel::SendRecovery::GiveUp
    pub async fn recover<F>(
        &self,
        context: &ChannelContext,
        account: &str,
        delete: impl Fn(OrphanedDraft) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<(), ChannelError>> + Send + 'static,
    {
        let (notes, tasks) = (Arc::clone(&context.notes), context.tasks.clone());
        let orphans = self.record.open(notes, tasks, account).await;
        if orphans.is_empty() {
            return;
        }
        let (record, cancel) = (Arc::clone(&self.record), context.cancel.clone());
        context.tasks.spawn(async move {
            cancel
                .run_until_cancelled(delete_orphans(&record, orphans, delete))
                .await
        });
    }

    /// `true` from the first [`Self::recover`] on.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.record.is_open()
    }

    /// Waits for the first [`Self::recover`], and for at most a few seconds in all: a channel that
    /// cannot receive may still send.
    pub async fn wait_until_recorded(&self) {
        self.record.wait_until_open().await;
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
            self.record.remove(OrphanedDraft::Known(locator)).await;
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
            Some(locator) if !self.record.take(&locator, reply).await => None,
            _ => message,
        }
    }

    /// Returns the [locator](super::DraftPlace::locator) of the draft that became a reply, also in
    /// an earlier process.
    pub async fn claimed_by(&self, reply: &str) -> Option<Value> {
        self.record.taken_by(reply).await
    }

    /// Forgets the draft that became a reply, because the reply is sent as a new message. `false`
    /// if that is not on disk: after a kill, it would be sent as a new message once more.
    pub async fn give_up(&self, reply: &str) -> bool {
        self.record.give_up(reply).await
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
            record: Arc::clone(&self.record),
        }
    }
}
