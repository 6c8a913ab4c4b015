//! A record of the drafts in chats, by which the next start deletes orphans of a killed process,
//! and completes the reply that one of them became.
//!
//! Decision: a draft is recorded as soon as its id is known, and before it becomes a reply it is
//! recorded as taken by that reply instead. So every message that is recorded as a draft may be
//! deleted, and a reply whose sending was interrupted is sent by repeating the edit of its message.
//! Nothing tells when a reply was settled, so the newest records of replies stay. A kill between
//! the first text and its record leaves the draft in the chat, because its id is unknown.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nanobot_channel::{ChannelError, NoteError, Notes, SendRecovery, TaskTracker, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::Instant;

/// The name of the note.
const NOTE: &str = "drafts";
/// Most drafts that are recorded.
const MAX_DRAFTS: usize = 64;
/// Most replies that are recorded. One reply of a channel is sent at a time; the others failed
/// before and wait.
const MAX_TAKEN: usize = 32;
/// Attempts at deleting a draft before it is left to the next start.
const MAX_ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause that a platform may require; longer ones are left to the next start.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// Timeout of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that is waited for the record, from the first wait on.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The record of drafts. Before [`Self::open`] nothing is recorded.
#[derive(Debug, Default)]
pub(crate) struct OrphanedDrafts {
    store: watch::Sender<Option<RecordStore>>,
    /// The end of the time that is waited for the record.
    deadline: OnceLock<Instant>,
}

/// The note of the record.
#[derive(Clone, Debug)]
struct RecordStore {
    notes: Arc<dyn Notes>,
    tasks: TaskTracker,
    /// Locked while the note is written, so that the last change is written last.
    record: Arc<tokio::sync::Mutex<DraftRecord>>,
}

#[derive(Debug)]
struct DraftRecord {
    account: String,
    /// Orphans of an earlier process.
    orphans: VecDeque<Value>,
    /// Drafts of this process.
    current: Vec<Value>,
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
    taken: VecDeque<TakenDraft>,
}

impl OrphanedDrafts {
    /// Records drafts from now on, and returns the orphans of an earlier process.
    pub(crate) async fn open(
        &self,
        notes: Arc<dyn Notes>,
        tasks: TaskTracker,
        account: &str,
    ) -> VecDeque<Value> {
        let record = match self.store() {
            Some(store) => store.record,
            None => Arc::new(tokio::sync::Mutex::new(
                DraftRecord::read(notes.as_ref(), account).await,
            )),
        };
        let orphans = record.lock().await.orphans.clone();
        self.store.send_replace(Some(RecordStore {
            notes,
            tasks,
            record,
        }));
        orphans
    }

    /// Records a draft.
    pub(crate) async fn add(&self, draft: Value) {
        let Some(RecordStore {
            notes,
            tasks,
            record,
        }) = self.store()
        else {
            return;
        };
        let record = record.lock_owned().await;
        if tasks.spawn(add_record(record, notes, draft)).await.is_err() {
            tracing::debug!("a draft could not be noted any more");
        }
    }

    /// Removes the record of a draft. `false` if that is not on disk: then the draft must not
    /// become a message that stays.
    pub(crate) async fn remove(&self, draft: &Value) -> bool {
        let Some(RecordStore {
            notes,
            tasks,
            record,
        }) = self.store()
        else {
            return true;
        };
        let record = record.lock_owned().await;
        tasks
            .spawn(remove_record(record, notes, draft.clone()))
            .await
            .unwrap_or(false)
    }

    /// Records that a draft becomes a reply. `false` if that is not on disk: then it must not.
    pub(crate) async fn take(&self, draft: &Value, reply: &str) -> bool {
        let Some(RecordStore {
            notes,
            tasks,
            record,
        }) = self.store()
        else {
            return true;
        };
        let record = record.lock_owned().await;
        let taken = TakenDraft {
            reply: reply.to_owned(),
            draft: draft.clone(),
        };
        tasks
            .spawn(take_record(record, notes, taken))
            .await
            .unwrap_or(false)
    }

    /// Returns the draft that became a reply, also in an earlier process.
    pub(crate) async fn taken_by(&self, reply: &str) -> Option<Value> {
        let record = self.store()?.record;
        let record = record.lock().await;
        let mut taken = record.taken.iter();
        let found = taken.find(|taken| taken.reply == reply)?;
        Some(found.draft.clone())
    }

    /// Forgets the draft that became a reply, because the reply is sent anew. `false` if that is
    /// not on disk.
    pub(crate) async fn give_up(&self, reply: &str) -> bool {
        let Some(RecordStore {
            notes,
            tasks,
            record,
        }) = self.store()
        else {
            return true;
        };
        let record = record.lock_owned().await;
        let forgotten = forget_taken(record, notes, reply.to_owned());
        tasks.spawn(forgotten).await.unwrap_or(false)
    }

    /// Deletes orphans, one after the other.
    pub(crate) async fn delete_all<T, F>(
        &self,
        orphans: VecDeque<Value>,
        delete: impl Fn(T) -> F + Send,
    ) where
        T: DeserializeOwned + Clone + Send,
        F: Future<Output = Result<(), ChannelError>> + Send,
    {
        for noted in orphans {
            let is_done = match serde_json::from_value::<T>(noted.clone()) {
                Ok(draft) => delete_with_retries(draft, &delete).await,
                Err(_) => true,
            };
            if is_done && !self.remove(&noted).await {
                return;
            }
        }
    }

    /// `true` after [`Self::open`].
    pub(crate) fn is_open(&self) -> bool {
        self.store().is_some()
    }

    /// Waits for [`Self::open`], and for at most [`OPEN_TIMEOUT`] in all.
    pub(crate) async fn wait_until_open(&self) {
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
}

// Changes run on tasks, so that each is complete before the next begins, even if its caller is
// dropped.

async fn add_record(mut record: OwnedMutexGuard<DraftRecord>, notes: Arc<dyn Notes>, draft: Value) {
    while record.orphans.len() + record.current.len() >= MAX_DRAFTS {
        if record.orphans.pop_front().is_none() {
            return;
        }
    }
    record.current.push(draft);
    if let Err(error) = record.write(notes.as_ref()).await {
        tracing::warn!(%error, "a draft could not be noted; a kill would leave it");
    }
}

async fn remove_record(
    mut record: OwnedMutexGuard<DraftRecord>,
    notes: Arc<dyn Notes>,
    draft: Value,
) -> bool {
    if !record.orphans.contains(&draft) && !record.current.contains(&draft) {
        return true;
    }
    record.orphans.retain(|known| *known != draft);
    record.current.retain(|known| *known != draft);
    let written = record.write(notes.as_ref()).await;
    if let Err(error) = &written {
        tracing::warn!(%error, "it could not be noted that a draft is none any more");
        record.current.push(draft);
    }
    written.is_ok()
}

async fn take_record(
    mut record: OwnedMutexGuard<DraftRecord>,
    notes: Arc<dyn Notes>,
    taken: TakenDraft,
) -> bool {
    if record.taken.contains(&taken) {
        return true;
    }
    let before = (
        record.orphans.clone(),
        record.current.clone(),
        record.taken.clone(),
    );
    record.orphans.retain(|known| *known != taken.draft);
    record.current.retain(|known| *known != taken.draft);
    if record.taken.len() >= MAX_TAKEN {
        record.taken.pop_front();
    }
    record.taken.push_back(taken);
    let written = record.write(notes.as_ref()).await;
    if let Err(error) = &written {
        tracing::warn!(%error, "it could not be noted that a draft becomes a reply");
        (record.orphans, record.current, record.taken) = before;
    }
    written.is_ok()
}

async fn forget_taken(
    mut record: OwnedMutexGuard<DraftRecord>,
    notes: Arc<dyn Notes>,
    reply: String,
) -> bool {
    let before = record.taken.clone();
    record.taken.retain(|taken| taken.reply != reply);
    if record.taken.len() == before.len() {
        return true;
    }
    let written = record.write(notes.as_ref()).await;
    if let Err(error) = &written {
        tracing::warn!(%error, "it could not be noted that a reply is sent anew");
        record.taken = before;
    }
    written.is_ok()
}

impl DraftRecord {
    async fn read(notes: &dyn Notes, account: &str) -> Self {
        let text = notes.read(NOTE).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what an earlier program left in chats cannot be read");
            None
        });
        let note: Option<DraftsNote> = text.and_then(|text| serde_json::from_str(&text).ok());
        let (orphans, taken) = note
            .filter(|note| note.account == account)
            .map(|note| (note.drafts, note.taken))
            .unwrap_or_default();
        Self {
            account: account.to_owned(),
            orphans,
            current: Vec::new(),
            taken,
        }
    }

    async fn write(&self, notes: &dyn Notes) -> Result<(), NoteError> {
        if self.orphans.is_empty() && self.current.is_empty() && self.taken.is_empty() {
            return notes.remove(NOTE).await;
        }
        let drafts = self.orphans.iter().chain(&self.current).cloned().collect();
        let note = DraftsNote {
            account: self.account.clone(),
            drafts,
            taken: self.taken.clone(),
        };
        let text = serde_json::to_string(&note).map_err(std::io::Error::from)?;
        notes.write(NOTE, &text).await
    }
}

/// Deletes a draft. `true` if nothing is left to do.
async fn delete_with_retries<T, F>(draft: T, delete: &(impl Fn(T) -> F + Send)) -> bool
where
    T: Clone + Send,
    F: Future<Output = Result<(), ChannelError>> + Send,
{
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_ATTEMPTS {
        let outcome = tokio::time::timeout(CALL_TIMEOUT, delete(draft.clone())).await;
        let Err(error) =
            outcome.unwrap_or_else(|_| Err(ChannelError::Ambiguous("no answer".to_owned())))
        else {
            return true;
        };
        tracing::debug!(%error, "a draft that was left in a chat could not be deleted");
        let pause_needed = match error.recovery() {
            // It is gone, or it must not be deleted.
            SendRecovery::GiveUp => return !error.is_permanent(),
            SendRecovery::Retry { after } => after.unwrap_or(pause),
            SendRecovery::Uncertain => pause,
        };
        if pause_needed > MAX_PAUSE {
            return false;
        }
        tokio::time::sleep(pause_needed).await;
        pause = pause.saturating_mul(3).min(MAX_PAUSE);
    }
    false
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use nanobot_channel::{Quarantined, async_trait};
    use serde_json::json;

    use super::*;

    /// A disk that may be full.
    #[derive(Debug, Default)]
    pub(crate) struct Paper {
        text: Mutex<Option<String>>,
        pub(crate) is_full: AtomicBool,
    }

    impl Paper {
        fn set(&self, text: Option<&str>) -> Result<(), NoteError> {
            if self.is_full.load(Ordering::Relaxed) {
                return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
            }
            *self.text.lock().unwrap() = text.map(str::to_owned);
            Ok(())
        }

        pub(crate) fn drafts(&self) -> Value {
            self.noted("drafts")
        }

        pub(crate) fn taken(&self) -> Value {
            self.noted("taken")
        }

        /// `Null` for an empty list, and without a note.
        fn noted(&self, list: &str) -> Value {
            let text = self.text.lock().unwrap().clone();
            let note: Value = text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
            let is_empty = note[list] == json!([]);
            if is_empty {
                Value::Null
            } else {
                note[list].clone()
            }
        }
    }

    #[async_trait]
    impl Notes for Paper {
        async fn read(&self, _name: &'static str) -> Result<Option<String>, NoteError> {
            Ok(self.text.lock().unwrap().clone())
        }

        async fn write(&self, _name: &'static str, text: &str) -> Result<(), NoteError> {
            self.set(Some(text))
        }

        async fn remove(&self, _name: &'static str) -> Result<(), NoteError> {
            self.set(None)
        }

        async fn write_unsynced(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
            self.write(name, text).await
        }

        async fn quarantine(&self, _key: &str, _bytes: &[u8]) -> Result<(), NoteError> {
            Err(NoteError::TooLong)
        }

        async fn quarantined(&self) -> Result<Quarantined, NoteError> {
            Ok(Quarantined::default())
        }
    }

    async fn open(paper: &Arc<Paper>, account: &str) -> (OrphanedDrafts, VecDeque<Value>) {
        let orphans = OrphanedDrafts::default();
        let left = orphans
            .open(Arc::<Paper>::clone(paper), TaskTracker::new(), account)
            .await;
        (orphans, left)
    }

    /// Returns the deletions tried while the platform answers with `answers`, and then accepts all.
    async fn deletions(
        orphans: &OrphanedDrafts,
        left: VecDeque<Value>,
        answers: Vec<ChannelError>,
    ) -> Vec<u64> {
        let (calls, answers) = (
            Arc::new(Mutex::new(Vec::new())),
            Arc::new(Mutex::new(VecDeque::from(answers))),
        );
        let delete = |draft: u64| {
            calls.lock().unwrap().push(draft);
            let answer = answers.lock().unwrap().pop_front();
            async move { answer.map_or(Ok(()), Err) }
        };
        orphans.delete_all(left, delete).await;
        calls.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn draft_records_are_left_to_the_next_start() {
        let paper = Arc::new(Paper::default());
        let (orphans, left) = open(&paper, "bot").await;
        assert!(left.is_empty());
        for draft in 1..=3 {
            orphans.add(json!(draft)).await;
        }
        assert!(orphans.remove(&json!(2)).await);
        assert_eq!(paper.drafts(), json!([1, 3]));
        assert!(
            open(&paper, "another bot").await.1.is_empty(),
            "messages of others are not ours to delete"
        );
        let (next, left) = open(&paper, "bot").await;
        next.add(json!(4)).await;
        assert_eq!(
            (&left, paper.drafts()),
            (&VecDeque::from([json!(1), json!(3)]), json!([1, 3, 4]))
        );
        assert_eq!(deletions(&next, left, Vec::new()).await, [1, 3]);
        assert_eq!(paper.drafts(), json!([4]));
        assert!(next.remove(&json!(4)).await);
        assert_eq!(paper.drafts(), Value::Null);
    }

    #[tokio::test]
    async fn remove_fails_while_the_note_cannot_be_written() {
        let paper = Arc::new(Paper::default());
        let (orphans, _) = open(&paper, "bot").await;
        orphans.add(json!(1)).await;
        paper.is_full.store(true, Ordering::Relaxed);
        assert!(!orphans.remove(&json!(1)).await);
        assert_eq!(paper.drafts(), json!([1]));
        paper.is_full.store(false, Ordering::Relaxed);
        assert!(orphans.remove(&json!(1)).await);
        assert_eq!(paper.drafts(), Value::Null);
    }

    #[tokio::test]
    async fn draft_of_a_reply_is_known_after_a_restart() {
        let paper = Arc::new(Paper::default());
        let (drafts, _) = open(&paper, "bot").await;
        drafts.add(json!(1)).await;
        assert!(drafts.take(&json!(1), "turn/0").await);
        assert!(drafts.take(&json!(1), "turn/0").await, "a repetition");
        assert_eq!(paper.drafts(), Value::Null);
        assert_eq!(paper.taken(), json!([{"reply": "turn/0", "draft": 1}]));
        let (next, left) = open(&paper, "bot").await;
        assert!(left.is_empty(), "a reply is not deleted");
        assert_eq!(next.taken_by("turn/0").await, Some(json!(1)));
        assert_eq!(next.taken_by("turn/1").await, None);
        assert_eq!(open(&paper, "other").await.0.taken_by("turn/0").await, None);
        assert!(next.give_up("turn/0").await);
        assert_eq!(next.taken_by("turn/0").await, None);
        assert_eq!(paper.taken(), Value::Null);
    }

    #[tokio::test(start_paused = true)]
    async fn record_is_waited_for_within_bounds() {
        let drafts = OrphanedDrafts::default();
        let began = Instant::now();
        drafts.wait_until_open().await;
        assert_eq!(began.elapsed(), OPEN_TIMEOUT);
        drafts.wait_until_open().await;
        assert_eq!(began.elapsed(), OPEN_TIMEOUT, "for all sends together");
        let drafts = OrphanedDrafts::default();
        let paper: Arc<Paper> = Arc::default();
        let open = async {
            tokio::time::sleep(OPEN_TIMEOUT / 2).await;
            drafts.open(paper, TaskTracker::new(), "bot").await
        };
        tokio::join!(open, drafts.wait_until_open());
        assert_eq!(began.elapsed(), OPEN_TIMEOUT + OPEN_TIMEOUT / 2);
    }

    #[tokio::test]
    async fn draft_becomes_no_reply_while_the_note_cannot_be_written() {
        let paper = Arc::new(Paper::default());
        let (drafts, _) = open(&paper, "bot").await;
        drafts.add(json!(1)).await;
        paper.is_full.store(true, Ordering::Relaxed);
        assert!(!drafts.take(&json!(1), "a").await);
        assert_eq!(drafts.taken_by("a").await, None);
        paper.is_full.store(false, Ordering::Relaxed);
        assert!(drafts.take(&json!(1), "a").await);
        paper.is_full.store(true, Ordering::Relaxed);
        assert!(!drafts.give_up("a").await);
        assert_eq!(drafts.taken_by("a").await, Some(json!(1)));
    }

    #[tokio::test]
    async fn records_of_replies_are_bounded() {
        let paper = Arc::new(Paper::default());
        let (drafts, _) = open(&paper, "bot").await;
        for number in 0..100 {
            assert!(drafts.take(&json!(number), &number.to_string()).await);
        }
        assert_eq!(paper.taken().as_array().unwrap().len(), MAX_TAKEN);
        assert_eq!(drafts.taken_by("67").await, None);
        assert_eq!(drafts.taken_by("68").await, Some(json!(68)));
    }

    #[tokio::test]
    async fn draft_records_are_bounded() {
        let paper = Arc::new(Paper::default());
        for draft in 0..100 {
            open(&paper, "bot").await.0.add(json!(draft)).await;
        }
        assert_eq!(paper.drafts(), Value::from((36..100).collect::<Vec<_>>()));
        let (orphans, _) = open(&Arc::new(Paper::default()), "bot").await;
        for draft in 0..100 {
            orphans.add(json!(draft)).await;
        }
        assert_eq!(
            orphans.store().unwrap().record.lock().await.current.len(),
            MAX_DRAFTS
        );
    }

    #[tokio::test(start_paused = true)]
    async fn deletion_is_retried_while_the_error_is_transient() {
        let unavailable = || ChannelError::Unavailable("down".to_owned());
        let limited = |seconds| ChannelError::RateLimited {
            retry_after: Duration::from_secs(seconds),
        };
        let table = [
            (
                vec![
                    unavailable(),
                    ChannelError::Ambiguous("cut".to_owned()),
                    limited(30),
                ],
                vec![1, 1, 1, 1, 2],
                json!(null),
            ),
            (
                vec![ChannelError::NotFound("gone".to_owned())],
                vec![1, 2],
                json!(null),
            ),
            (
                vec![ChannelError::Refused("too old".to_owned())],
                vec![1, 2],
                json!(null),
            ),
            (vec![limited(3600)], vec![1, 2], json!([1])),
            (
                (0..5).map(|_| unavailable()).collect(),
                vec![1, 1, 1, 1, 1, 2],
                json!([1]),
            ),
            (
                vec![ChannelError::Auth("revoked".to_owned())],
                vec![1, 2],
                json!([1]),
            ),
        ];
        for (answers, expected, stays) in table {
            let paper = Arc::new(Paper::default());
            let (orphans, _) = open(&paper, "bot").await;
            orphans.add(json!(1)).await;
            orphans.add(json!(2)).await;
            let (next, left) = open(&paper, "bot").await;
            let shown = format!("{answers:?}");
            assert_eq!(
                (deletions(&next, left, answers).await, paper.drafts()),
                (expected, stays),
                "{shown}"
            );
        }
    }

    #[tokio::test]
    async fn malformed_note_is_ignored() {
        for text in [
            "",
            "{",
            "[]",
            "{\"account\": 1}",
            "{\"account\": \"bot\", \"drafts\": [], \"taken\": 1}",
        ] {
            let paper = Arc::new(Paper {
                text: Mutex::new(Some(text.to_owned())),
                ..Paper::default()
            });
            assert!(open(&paper, "bot").await.1.is_empty(), "{text}");
        }
        let paper = Arc::new(Paper::default());
        let (orphans, _) = open(&paper, "bot").await;
        orphans.add(json!("of a later version")).await;
        let (next, left) = open(&paper, "bot").await;
        assert!(deletions(&next, left, Vec::new()).await.is_empty());
        assert_eq!(paper.drafts(), Value::Null);
    }
}
