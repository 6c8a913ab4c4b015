//! The deletion of drafts that a killed process left in chats.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nanobot_channel::{ChannelError, SendRecovery, Value};
use serde::{Deserialize, Serialize};

use super::record::DraftRecord;

/// Attempts at deleting a draft before it is left to the next start.
const MAX_ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause that a platform may require; longer ones are left to the next start.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// Timeout of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A draft that a killed process left.
#[derive(Clone, Debug, PartialEq)]
pub enum OrphanedDraft {
    /// The [locator](super::DraftPlace::locator) of a message.
    Known(Value),
    /// A message that may have been sent.
    Begun(BegunDraft),
}

/// A message before its name is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BegunDraft {
    /// The [intent](super::DraftPlace::intent).
    pub intent: Value,
    /// The time before it was sent, in seconds since 1970.
    at: u64,
}

impl BegunDraft {
    /// A message that is sent next.
    #[must_use]
    pub fn new(intent: Value) -> Self {
        let at = seconds(SystemTime::now());
        Self { intent, at }
    }

    /// Returns the time since it was sent, by the clock of the system.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_secs(seconds(SystemTime::now()).saturating_sub(self.at))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Deletes orphans, one after the other, and removes them from the record.
pub(super) async fn delete_orphans<F>(
    record: &DraftRecord,
    orphans: VecDeque<OrphanedDraft>,
    delete: impl Fn(OrphanedDraft) -> F + Send,
) where
    F: Future<Output = Result<(), ChannelError>> + Send,
{
    for orphan in orphans {
        let is_done = delete_with_retries(&orphan, &delete).await;
        if is_done && !record.remove(orphan).await {
            return;
        }
    }
}

/// Deletes a draft. `true` if nothing is left to do.
async fn delete_with_retries<F>(
    orphan: &OrphanedDraft,
    delete: &(impl Fn(OrphanedDraft) -> F + Send),
) -> bool
where
    F: Future<Output = Result<(), ChannelError>> + Send,
{
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_ATTEMPTS {
        let outcome = tokio::time::timeout(CALL_TIMEOUT, delete(orphan.clone())).await;
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
