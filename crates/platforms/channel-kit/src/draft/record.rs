//! A record of the drafts in chats, by which the next start deletes those of a killed process, and
//! completes the reply that one of them became.
//!
//! Decision: a draft is recorded as soon as its id is known, and before it becomes a reply it is
//! recorded as taken by that reply instead. So every message that is recorded as a draft may be
//! deleted, and a reply whose sending was interrupted is sent by repeating the edit of its message.
//! Nothing tells when a reply was settled, so the newest records of replies stay.
//!
//! Where a message can be found without its id, its [intent](super::DraftPlace::intent) is recorded
//! before it is sent. Elsewhere, a kill between the first text and the record leaves the draft in
//! the chat.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nanobot_channel::{NoteError, Notes, TaskTracker, Value};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::orphans::{BegunDraft, OrphanedDraft};

/// The name of the note.
const NOTE: &str = "drafts";
/// Most drafts that are recorded.
pub(super) const MAX_DRAFTS: usize = 64;
/// Most replies that are recorded. One reply of a channel is sent at a time; the others failed
/// before and wait.
pub(super) const MAX_TAKEN: usize = 32;
/// The time that is waited for the record, from the first wait on.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The record of drafts. Before [`Self::open`] nothing is recorded.
#[derive(Debug, Default)]
pub(super) struct DraftRecord {
    store: watch::Sender<Option<RecordStore>>,
    /// The end of the time that is waited for the record.
    deadline: OnceLock<Instant>,
}

/// The place of the record.
#[derive(Clone, Debug)]
struct RecordStore {
    notes: Arc<dyn Notes>,
    tasks: TaskTracker,
    /// Locked while the note is written, so that the last change is written last.
    entries: Arc<tokio::sync::Mutex<Entries>>,
}

/// The content of the record.
#[derive(Clone, Debug)]
struct Entries {
    account: String,
    /// Drafts of an earlier process.
    orphans: VecDeque<OrphanedDraft>,
    /// Drafts of this process.
    current: Vec<OrphanedDraft>,
    /// Drafts that became replies, the newest last.
    taken: VecDeque<TakenDraft>,
}

/// A draft that became a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TakenDraft {
    /// The key of the reply.
    reply: String,
    draft: Value,
}

/// The content of the note.
#[derive(Debug, Serialize, Deserialize)]
struct DraftsNote {
    /// The sender of the drafts: another account may have other messages of the same name.
    account: String,
    drafts: VecDeque<Value>,
    #[serde(default)]
    begun: VecDeque<BegunDraft>,
    #[serde(default)]
    taken: VecDeque<TakenDraft>,
}

/// What becomes of a change that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwritten {
    /// It is undone.
    Undone,
    /// It is written with the next change.
    Kept,
}

impl DraftRecord {
    /// Records drafts from now on, and returns those of an earlier process.
    pub(super) async fn open(
        &self,
        notes: Arc<dyn Notes>,
        tasks: TaskTracker,
        account: &str,
    ) -> VecDeque<OrphanedDraft> {
        let entries = match self.store() {
            Some(store) => store.entries,
            None => Arc::new(tokio::sync::Mutex::new(
                Entries::read(notes.as_ref(), account).await,
            )),
        };
        let orphans = entries.lock().await.orphans.clone();
        self.store.send_replace(Some(RecordStore {
            notes,
            tasks,
            entries,
        }));
        orphans
    }

    /// Records a draft.
    pub(super) async fn add(&self, draft: OrphanedDraft) {
        let what = "a draft, which a kill would leave";
        let add = |entries: &mut Entries| entries.add(draft);
        self.change(what, Unwritten::Kept, add).await;
    }

    /// Records the message that a begun one became; without one, none was sent.
    pub(super) async fn resolve(&self, begun: BegunDraft, draft: Option<Value>) {
        let what = "a draft that was begun, which a kill would leave";
        let resolve = |entries: &mut Entries| {
            let is_known = entries.remove(&OrphanedDraft::Begun(begun));
            is_known | draft.is_some_and(|draft| entries.add(OrphanedDraft::Known(draft)))
        };
        self.change(what, Unwritten::Kept, resolve).await;
    }

    /// Removes the record of a draft. `false` if that is not on disk: then the draft must not
    /// become a message that stays.
    pub(super) async fn remove(&self, draft: OrphanedDraft) -> bool {
        let what = "that a draft is none any more";
        let remove = move |entries: &mut Entries| entries.remove(&draft);
        self.change(what, Unwritten::Undone, remove).await
    }

    /// Records that a draft becomes a reply. `false` if that is not on disk: then it must not.
    pub(super) async fn take(&self, draft: &Value, reply: &str) -> bool {
        let taken = TakenDraft {
            reply: reply.to_owned(),
            draft: draft.clone(),
        };
        let what = "that a draft becomes a reply";
        let take = |entries: &mut Entries| entries.take(taken);
        self.change(what, Unwritten::Undone, take).await
    }

    /// Returns the draft that became a reply, also in an earlier process.
    pub(super) async fn taken_by(&self, reply: &str) -> Option<Value> {
        let entries = self.store()?.entries;
        let entries = entries.lock().await;
        let mut taken = entries.taken.iter();
        let found = taken.find(|taken| taken.reply == reply)?;
        Some(found.draft.clone())
    }

    /// Forgets the draft that became a reply, because the reply is sent anew. `false` if that is
    /// not on disk.
    pub(super) async fn give_up(&self, reply: &str) -> bool {
        let reply = reply.to_owned();
        let forget = move |entries: &mut Entries| {
            let before = entries.taken.len();
            entries.taken.retain(|taken| taken.reply != reply);
            entries.taken.len() < before
        };
        let what = "that a reply is sent anew";
        self.change(what, Unwritten::Undone, forget).await
    }

    /// `true` after [`Self::open`].
    pub(super) fn is_open(&self) -> bool {
        self.store().is_some()
    }

    /// Waits for [`Self::open`], and for at most [`OPEN_TIMEOUT`] in all.
    pub(super) async fn wait_until_open(&self) {
        if self.is_open() {
            return;
        }
        let deadline = *self.deadline.get_or_init(|| Instant::now() + OPEN_TIMEOUT);
        let mut opened = self.store.subscribe();
        let waited = tokio::time::timeout_at(deadline, opened.wait_for(Option::is_some)).await;
        if waited.is_err() {
            tracing::debug!("the record of drafts is not open yet");
        }
    }

    fn store(&self) -> Option<RecordStore> {
        self.store.borrow().clone()
    }

    /// Changes the record; `change` returns `false` if there is nothing to write. Runs on a task,
    /// so that a change is complete before the next begins, even if the caller is dropped. `false`
    /// if the record is not on disk.
    async fn change(
        &self,
        what: &'static str,
        unwritten: Unwritten,
        change: impl FnOnce(&mut Entries) -> bool + Send + 'static,
    ) -> bool {
        let Some(store) = self.store() else {
            return true;
        };
        let mut entries = store.entries.lock_owned().await;
        let notes = store.notes;
        let written = store.tasks.spawn(async move {
            let before = entries.clone();
            if !change(&mut entries) {
                return true;
            }
            let written = entries.write(notes.as_ref()).await;
            if let Err(error) = &written {
                tracing::warn!(%error, "it could not be noted: {what}");
                if unwritten == Unwritten::Undone {
                    *entries = before;
                }
            }
            written.is_ok()
        });
        written.await.unwrap_or(false)
    }
}

impl Entries {
    async fn read(notes: &dyn Notes, account: &str) -> Self {
        let text = notes.read(NOTE).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what an earlier program left in chats cannot be read");
            None
        });
        let note: Option<DraftsNote> = text.and_then(|text| serde_json::from_str(&text).ok());
        let note = note.filter(|note| note.account == account);
        let (mut orphans, mut replies) = (VecDeque::new(), VecDeque::new());
        if let Some(DraftsNote {
            drafts,
            begun,
            taken,
            ..
        }) = note
        {
            orphans.extend(begun.into_iter().map(OrphanedDraft::Begun));
            orphans.extend(drafts.into_iter().map(OrphanedDraft::Known));
            replies = taken;
        }
        Self {
            account: account.to_owned(),
            orphans,
            current: Vec::new(),
            taken: replies,
        }
    }

    async fn write(&self, notes: &dyn Notes) -> Result<(), NoteError> {
        if self.orphans.is_empty() && self.current.is_empty() && self.taken.is_empty() {
            return notes.remove(NOTE).await;
        }
        let mut note = DraftsNote {
            account: self.account.clone(),
            drafts: VecDeque::new(),
            begun: VecDeque::new(),
            taken: self.taken.clone(),
        };
        for draft in self.orphans.iter().chain(&self.current).cloned() {
            match draft {
                OrphanedDraft::Known(locator) => note.drafts.push_back(locator),
                OrphanedDraft::Begun(begun) => note.begun.push_back(begun),
            }
        }
        let text = serde_json::to_string(&note).map_err(std::io::Error::from)?;
        notes.write(NOTE, &text).await
    }

    /// Adds a draft in place of the oldest orphans. `false` if there are too many.
    fn add(&mut self, draft: OrphanedDraft) -> bool {
        while self.orphans.len() + self.current.len() >= MAX_DRAFTS {
            if self.orphans.pop_front().is_none() {
                return false;
            }
        }
        self.current.push(draft);
        true
    }

    /// `false` if the draft is not recorded.
    fn remove(&mut self, draft: &OrphanedDraft) -> bool {
        let before = self.orphans.len() + self.current.len();
        self.orphans.retain(|known| known != draft);
        self.current.retain(|known| known != draft);
        self.orphans.len() + self.current.len() < before
    }

    /// `false` if that is recorded.
    fn take(&mut self, taken: TakenDraft) -> bool {
        if self.taken.contains(&taken) {
            return false;
        }
        self.remove(&OrphanedDraft::Known(taken.draft.clone()));
        if self.taken.len() >= MAX_TAKEN {
            self.taken.pop_front();
        }
        self.taken.push_back(taken);
        true
    }
}
