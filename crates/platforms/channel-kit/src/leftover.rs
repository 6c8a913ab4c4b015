//! Which drafts stand in chats, noted so that the next start can take away what a kill left.
//!
//! Decision: a draft is noted as soon as the platform said what it is called, and its note is gone
//! from the disk before it becomes a reply. So nothing that is noted is a reply, and all of it may be
//! deleted. What a kill leaves between the platform's taking a first text and the note stays in the
//! chat: nobody knows what it is called.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, NoteError, Notes, SendRecovery, TaskTracker, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;

/// The name of the note.
const NOTE: &str = "drafts";
/// How many drafts are noted.
const MOST: usize = 64;
/// How often the platform is asked to delete one before that is left to the next start.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A longer pause that a platform asks for is left to the next start.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How long one call may take.
const CALL_TIME: Duration = Duration::from_secs(30);

/// The drafts that stand in chats. Before [`Self::open`] none are noted.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<Option<Keeper>>);

/// Where they are noted.
#[derive(Clone, Debug)]
struct Keeper {
    notes: Arc<dyn Notes>,
    tasks: TaskTracker,
    /// Held while the note is written, so that the last change is what stands there.
    standing: Arc<tokio::sync::Mutex<Standing>>,
}

#[derive(Debug)]
struct Standing {
    account: String,
    /// What an earlier program left.
    left: VecDeque<Value>,
    /// What this one shows.
    own: Vec<Value>,
}

/// What the note says.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// On whose behalf the drafts were sent: another account may call other messages the same.
    account: String,
    drafts: VecDeque<Value>,
}

impl Leftovers {
    /// Notes drafts from now on, and returns those that an earlier program left.
    pub(crate) async fn open(
        &self,
        notes: Arc<dyn Notes>,
        tasks: TaskTracker,
        account: &str,
    ) -> VecDeque<Value> {
        let standing = match self.keeper() {
            Some(keeper) => keeper.standing,
            None => Arc::new(tokio::sync::Mutex::new(
                Standing::read(notes.as_ref(), account).await,
            )),
        };
        let left = standing.lock().await.left.clone();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Keeper {
            notes,
            tasks,
            standing,
        });
        left
    }

    /// A draft stands there now.
    pub(crate) async fn note(&self, draft: Value) {
        let Some(Keeper {
            notes,
            tasks,
            standing,
        }) = self.keeper()
        else {
            return;
        };
        let standing = standing.lock_owned().await;
        if tasks.spawn(note(standing, notes, draft)).await.is_err() {
            tracing::debug!("a draft could not be noted any more");
        }
    }

    /// The draft is none any more. Whether that is on disk: otherwise it must not become anything
    /// that is to stay.
    pub(crate) async fn forget(&self, draft: &Value) -> bool {
        let Some(Keeper {
            notes,
            tasks,
            standing,
        }) = self.keeper()
        else {
            return true;
        };
        let standing = standing.lock_owned().await;
        tasks
            .spawn(forget(standing, notes, draft.clone()))
            .await
            .unwrap_or(false)
    }

    /// Deletes what an earlier program left, one draft after the other.
    pub(crate) async fn take_away<T, F>(
        &self,
        left: VecDeque<Value>,
        delete: impl Fn(T) -> F + Send,
    ) where
        T: DeserializeOwned + Clone + Send,
        F: Future<Output = Result<(), ChannelError>> + Send,
    {
        for noted in left {
            let is_done = match serde_json::from_value::<T>(noted.clone()) {
                Ok(draft) => is_deleted(draft, &delete).await,
                Err(_) => true,
            };
            if is_done && !self.forget(&noted).await {
                return;
            }
        }
    }

    fn keeper(&self) -> Option<Keeper> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

// What is begun here is finished, whoever waits for it, and before the next begins: half a change would
// be written later than the next one.

async fn note(mut standing: OwnedMutexGuard<Standing>, notes: Arc<dyn Notes>, draft: Value) {
    while standing.left.len() + standing.own.len() >= MOST {
        if standing.left.pop_front().is_none() {
            return;
        }
    }
    standing.own.push(draft);
    if let Err(error) = standing.write(notes.as_ref()).await {
        tracing::warn!(%error, "a draft could not be noted; a kill would leave it");
    }
}

async fn forget(
    mut standing: OwnedMutexGuard<Standing>,
    notes: Arc<dyn Notes>,
    draft: Value,
) -> bool {
    if !standing.left.contains(&draft) && !standing.own.contains(&draft) {
        return true;
    }
    standing.left.retain(|known| *known != draft);
    standing.own.retain(|known| *known != draft);
    let written = standing.write(notes.as_ref()).await;
    if let Err(error) = &written {
        tracing::warn!(%error, "it could not be noted that a draft is none any more");
        standing.own.push(draft);
    }
    written.is_ok()
}

impl Standing {
    async fn read(notes: &dyn Notes, account: &str) -> Self {
        let text = notes.read(NOTE).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what an earlier program left in chats cannot be read");
            None
        });
        let note: Option<Note> = text.and_then(|text| serde_json::from_str(&text).ok());
        let left = note
            .filter(|note| note.account == account)
            .map(|note| note.drafts)
            .unwrap_or_default();
        Self {
            account: account.to_owned(),
            left,
            own: Vec::new(),
        }
    }

    async fn write(&self, notes: &dyn Notes) -> Result<(), NoteError> {
        if self.left.is_empty() && self.own.is_empty() {
            return notes.remove(NOTE).await;
        }
        let drafts = self.left.iter().chain(&self.own).cloned().collect();
        let note = Note {
            account: self.account.clone(),
            drafts,
        };
        let text = serde_json::to_string(&note).map_err(std::io::Error::from)?;
        notes.write(NOTE, &text).await
    }
}

/// Deletes a draft. Whether there is nothing more to be done about it.
async fn is_deleted<T, F>(draft: T, delete: &(impl Fn(T) -> F + Send)) -> bool
where
    T: Clone + Send,
    F: Future<Output = Result<(), ChannelError>> + Send,
{
    let mut pause = FIRST_PAUSE;
    for _ in 0..TRIES {
        let outcome = tokio::time::timeout(CALL_TIME, delete(draft.clone())).await;
        let Err(error) =
            outcome.unwrap_or_else(|_| Err(ChannelError::Ambiguous("no answer".to_owned())))
        else {
            return true;
        };
        tracing::debug!(%error, "a draft that was left in a chat could not be deleted");
        let wanted = match error.recovery() {
            // It is gone, or nobody may delete it.
            SendRecovery::GiveUp => return !error.is_permanent(),
            SendRecovery::Retry { after } => after.unwrap_or(pause),
            SendRecovery::Uncertain => pause,
        };
        if wanted > LONGEST_PAUSE {
            return false;
        }
        tokio::time::sleep(wanted).await;
        pause = pause.saturating_mul(3).min(LONGEST_PAUSE);
    }
    false
}

#[cfg(test)]
pub(crate) mod tests {
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
            let text = self.text.lock().unwrap().clone();
            text.map_or(Value::Null, |text| {
                serde_json::from_str::<Value>(&text).unwrap()["drafts"].take()
            })
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

        async fn jot(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
            self.write(name, text).await
        }

        async fn set_aside(&self, _key: &str, _bytes: &[u8]) -> Result<(), NoteError> {
            Err(NoteError::TooLong)
        }

        async fn aside(&self) -> Result<Quarantined, NoteError> {
            Ok(Quarantined::default())
        }
    }

    async fn open(paper: &Arc<Paper>, account: &str) -> (Leftovers, VecDeque<Value>) {
        let leftovers = Leftovers::default();
        let left = leftovers
            .open(Arc::<Paper>::clone(paper), TaskTracker::new(), account)
            .await;
        (leftovers, left)
    }

    /// What is asked for while the platform answers with `answers`, and then takes all.
    async fn asked(
        leftovers: &Leftovers,
        left: VecDeque<Value>,
        answers: Vec<ChannelError>,
    ) -> Vec<u64> {
        let (asked, answers) = (
            Arc::new(Mutex::new(Vec::new())),
            Arc::new(Mutex::new(VecDeque::from(answers))),
        );
        let delete = |draft: u64| {
            asked.lock().unwrap().push(draft);
            let answer = answers.lock().unwrap().pop_front();
            async move { answer.map_or(Ok(()), Err) }
        };
        leftovers.take_away(left, delete).await;
        asked.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn what_stands_in_chats_is_noted_and_left_to_the_next_start() {
        let paper = Arc::new(Paper::default());
        let (leftovers, left) = open(&paper, "bot").await;
        assert!(left.is_empty());
        for draft in 1..=3 {
            leftovers.note(json!(draft)).await;
        }
        assert!(leftovers.forget(&json!(2)).await);
        assert_eq!(paper.drafts(), json!([1, 3]));
        assert!(
            open(&paper, "another bot").await.1.is_empty(),
            "messages of others are not ours to delete"
        );
        let (next, left) = open(&paper, "bot").await;
        next.note(json!(4)).await;
        assert_eq!(
            (&left, paper.drafts()),
            (&VecDeque::from([json!(1), json!(3)]), json!([1, 3, 4]))
        );
        assert_eq!(asked(&next, left, Vec::new()).await, [1, 3]);
        assert_eq!(paper.drafts(), json!([4]));
        assert!(next.forget(&json!(4)).await);
        assert_eq!(paper.drafts(), Value::Null);
    }

    #[tokio::test]
    async fn what_cannot_be_struck_out_is_none_yet() {
        let paper = Arc::new(Paper::default());
        let (leftovers, _) = open(&paper, "bot").await;
        leftovers.note(json!(1)).await;
        paper.is_full.store(true, Ordering::Relaxed);
        assert!(!leftovers.forget(&json!(1)).await);
        assert_eq!(paper.drafts(), json!([1]));
        paper.is_full.store(false, Ordering::Relaxed);
        assert!(leftovers.forget(&json!(1)).await);
        assert_eq!(paper.drafts(), Value::Null);
    }

    #[tokio::test]
    async fn no_more_are_noted_than_there_is_room_for() {
        let paper = Arc::new(Paper::default());
        for draft in 0..100 {
            open(&paper, "bot").await.0.note(json!(draft)).await;
        }
        assert_eq!(paper.drafts(), Value::from((36..100).collect::<Vec<_>>()));
        let (leftovers, _) = open(&Arc::new(Paper::default()), "bot").await;
        for draft in 0..100 {
            leftovers.note(json!(draft)).await;
        }
        assert_eq!(
            leftovers.keeper().unwrap().standing.lock().await.own.len(),
            MOST
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_platform_is_asked_again_while_that_may_help() {
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
            let (leftovers, _) = open(&paper, "bot").await;
            leftovers.note(json!(1)).await;
            leftovers.note(json!(2)).await;
            let (next, left) = open(&paper, "bot").await;
            let shown = format!("{answers:?}");
            assert_eq!(
                (asked(&next, left, answers).await, paper.drafts()),
                (expected, stays),
                "{shown}"
            );
        }
    }

    #[tokio::test]
    async fn a_note_that_makes_no_sense_is_none() {
        for text in ["", "{", "[]", "{\"account\": 1}"] {
            let paper = Arc::new(Paper {
                text: Mutex::new(Some(text.to_owned())),
                ..Paper::default()
            });
            assert!(open(&paper, "bot").await.1.is_empty(), "{text}");
        }
        let paper = Arc::new(Paper::default());
        let (leftovers, _) = open(&paper, "bot").await;
        leftovers.note(json!("of a later version")).await;
        let (next, left) = open(&paper, "bot").await;
        assert!(asked(&next, left, Vec::new()).await.is_empty());
        assert_eq!(paper.drafts(), Value::Null);
    }
}
