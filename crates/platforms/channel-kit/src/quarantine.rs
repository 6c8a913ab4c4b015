//! Dead letters: a message that ends the process each time it is handled is set aside after a few
//! attempts.
//!
//! Decision: an attempt is noted before any content is parsed, and removed when the content became
//! a message. The note is a small file that outlives the process. It is written in place and not
//! synced: no parser ends a machine, its lines stand for themselves, and a sync or a new file for
//! every event of a busy chat would cost more than its handling. Events
//! of one batch are handled one at a time by the next process, so that none is blamed for another,
//! or for a turn at the same time, because suspects of both kinds take one permit. A turn may run
//! for long, so the wait for it is limited to the first minute. A note that cannot be written
//! delays no event; the attempt does not count then. Attempts at events that arrived together, and
//! those that begin during a write, are noted together.
//!
//! A channel is `degraded` until the operator has removed the files of set-aside messages.
//!
//! It does not parse messages and does not confirm them to a platform.

mod attempt_log;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelName, Liveness, Notes};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use self::attempt_log::AttemptLog;
use crate::backoff;
use crate::trouble::Trouble;

/// The name of the note with the attempts.
const NOTE: &str = "tries";
/// Attempts after which a message is set aside.
const MAX_ATTEMPTS: u32 = 4;
/// Longest key, in bytes. Longer ones are replaced by a digest.
const MAX_KEY_LENGTH: usize = 64;
/// Most messages that are handled at a time.
const MAX_CONCURRENT: u32 = 1024;
/// Interval of checks whether the operator removed set-aside messages.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// Time after opening in which a suspect waits for suspects elsewhere.
const OTHERS_TIMEOUT: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Counts attempts over restarts, and sets aside messages with too many.
#[derive(Debug)]
pub struct Quarantine {
    channel: ChannelName,
    state: Mutex<QuarantineState>,
    /// Held while the note is written, so that the last change stays.
    write_lock: tokio::sync::Mutex<()>,
    slots: Semaphore,
    /// The reason why the channel is degraded.
    trouble: Arc<Trouble>,
}

#[derive(Debug, Default)]
struct QuarantineState {
    notes: Option<Arc<dyn Notes>>,
    others: Option<OtherSuspects>,
    log: AttemptLog,
    /// `false` if the note says something else.
    is_written: bool,
}

/// Suspects elsewhere: in other channels, and among turns.
#[derive(Clone, Debug)]
struct OtherSuspects {
    permit: Arc<Semaphore>,
    wait_until: Instant,
}

/// A message that is being handled. If it is dropped without [`Self::end`], its attempt counts when
/// the process is killed.
#[derive(Debug)]
#[must_use = "its attempt lasts until it is ended"]
pub struct Handling<'a> {
    quarantine: &'a Quarantine,
    keys: Vec<String>,
    is_suspect: bool,
    _slot: Option<SemaphorePermit<'a>>,
    _others: Option<OwnedSemaphorePermit>,
}

impl Quarantine {
    /// Creates the quarantine of one channel. Nothing is counted before [`Self::open`].
    #[must_use]
    pub fn new(channel: ChannelName) -> Self {
        Self {
            channel,
            state: Mutex::default(),
            write_lock: tokio::sync::Mutex::const_new(()),
            slots: Semaphore::new(MAX_CONCURRENT as usize),
            trouble: Arc::default(),
        }
    }

    /// Begins to count, with the attempts of earlier processes. The channel uses the returned
    /// context, whose signs of life report set-aside messages.
    pub async fn open(&self, context: &ChannelContext) -> ChannelContext {
        let is_first = self.state().notes.is_none();
        if is_first {
            let text = context.notes.read(NOTE).await.unwrap_or_else(|error| {
                tracing::warn!(channel = %self.channel, %error, "earlier tries are not known");
                None
            });
            let mut state = self.state();
            state.log = AttemptLog::parse(&text.unwrap_or_default());
            state.is_written = true;
            state.notes = Some(Arc::clone(&context.notes));
            state.others = Some(OtherSuspects::of(&context.suspects));
        }
        self.check_set_aside().await;
        let (notes, trouble) = (Arc::clone(&context.notes), Arc::clone(&self.trouble));
        let (cancel, channel) = (context.cancel.clone(), self.channel.clone());
        context.tasks.spawn(async move {
            cancel
                .run_until_cancelled(watch_set_aside(channel, notes, trouble))
                .await;
        });
        ChannelContext {
            progress: self.trouble.wrap(&context.progress),
            ..context.clone()
        }
    }

    /// `true` if earlier processes ended while it, or another message at the same time, was
    /// handled.
    #[must_use]
    pub fn is_suspect(&self, key: &str) -> bool {
        self.earlier_attempts(key) > 0
    }

    /// `true` if it is to be [set aside](Self::set_aside) unread.
    #[must_use]
    pub fn is_exceeded(&self, key: &str) -> bool {
        self.earlier_attempts(key) >= MAX_ATTEMPTS
    }

    /// Notes the attempts at events that arrived together, in one write. None of them may be a
    /// suspect.
    pub async fn begin(&self, keys: &[String]) {
        let keys: Vec<String> = keys.iter().map(|key| bounded_key(key)).collect();
        self.set_under_way(&keys, true).await;
    }

    /// Waits until these may be handled, and notes the attempt. A suspect is handled while nothing
    /// else of this channel is, and in the first minute no suspect elsewhere.
    pub async fn enter(&self, keys: &[String]) -> Handling<'_> {
        let keys: Vec<String> = keys.iter().map(|key| bounded_key(key)).collect();
        let is_suspect = keys.iter().any(|key| self.earlier_attempts(key) > 0);
        let others = self.state().others.clone().filter(|_| is_suspect);
        let others = match others {
            Some(others) => others.wait().await,
            None => None,
        };
        let slot = self
            .slots
            .acquire_many(if is_suspect { MAX_CONCURRENT } else { 1 })
            .await;
        self.set_under_way(&keys, true).await;
        Handling {
            quarantine: self,
            keys,
            is_suspect,
            _slot: slot.ok(),
            _others: others,
        }
    }

    /// [Enters](Self::enter) with one event, or sets it aside: then there is nothing to handle.
    pub async fn admit(
        &self,
        key: &str,
        bytes: &[u8],
        progress: &dyn Liveness,
    ) -> Option<Handling<'_>> {
        if self.is_exceeded(key) {
            Box::pin(self.set_aside(key, bytes, progress)).await;
            return None;
        }
        Some(self.enter(&[key.to_owned()]).await)
    }

    /// Keeps the bytes of an event that is not to be handled any more. Returns when they are on
    /// disk, however long that takes.
    pub async fn set_aside(&self, key: &str, bytes: &[u8], progress: &dyn Liveness) {
        let Some(notes) = self.state().notes.clone() else {
            return;
        };
        let mut attempts = 0;
        while let Err(error) = notes.quarantine(&bounded_key(key), bytes).await {
            progress.degraded(&format!(
                "a message that ended the program cannot be set aside: {error}"
            ));
            tokio::time::sleep(backoff(FIRST_PAUSE, attempts)).await;
            attempts = attempts.saturating_add(1);
        }
        tracing::error!(
            channel = %self.channel, key, tries = MAX_ATTEMPTS,
            "a message ended the program each time it was handled; it is set aside unread"
        );
        self.check_set_aside().await;
    }

    /// Removes the attempts under way, because the process ends regularly.
    pub async fn close(&self) {
        {
            let mut state = self.state();
            state.log.keep_earlier();
            state.is_written = false;
        }
        self.write().await;
    }

    /// Reports set-aside messages as the reason for `degraded`.
    async fn check_set_aside(&self) {
        let Some(notes) = self.state().notes.clone() else {
            return;
        };
        update_trouble(&self.channel, notes.as_ref(), &self.trouble).await;
    }

    fn earlier_attempts(&self, key: &str) -> u32 {
        self.state().log.earlier(&bounded_key(key))
    }

    async fn set_under_way(&self, keys: &[String], is_under_way: bool) {
        {
            let mut state = self.state();
            if state.log.set_under_way(keys, is_under_way) {
                state.is_written = false;
            }
        }
        self.write().await;
    }

    async fn write(&self) {
        let _write_lock = self.write_lock.lock().await;
        if self.state().is_written {
            return;
        }
        // The events at hand begin first, so that one write notes all of them.
        tokio::task::yield_now().await;
        let (notes, text) = {
            let mut state = self.state();
            let Some(notes) = state.notes.clone().filter(|_| !state.is_written) else {
                return;
            };
            state.is_written = true;
            (notes, state.log.to_text())
        };
        if let Err(error) = notes.overwrite(NOTE, &text).await {
            tracing::warn!(channel = %self.channel, %error, "a try cannot be noted and does not count");
            self.state().is_written = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, QuarantineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handling<'_> {
    /// Forgets the attempts, because the message was handled without harm. Those of a suspect are
    /// removed from the disk at once, others with the next write, because only a kill brings them
    /// back.
    pub async fn end(self) {
        {
            let mut state = self.quarantine.state();
            state.log.remove(&self.keys);
            if self.is_suspect {
                state.is_written = false;
            }
        }
        if self.is_suspect {
            self.quarantine.write().await;
        }
    }

    /// Postpones the handling. The attempt of a suspect is removed until then, so that it is not
    /// blamed for the next one.
    pub async fn pause(self) {
        if self.is_suspect {
            self.quarantine.set_under_way(&self.keys, false).await;
        }
    }
}

impl OtherSuspects {
    fn of(permit: &Arc<Semaphore>) -> Self {
        Self {
            permit: Arc::clone(permit),
            wait_until: Instant::now() + OTHERS_TIMEOUT,
        }
    }

    async fn wait(self) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout_at(self.wait_until, self.permit.acquire_owned())
            .await
            .ok()?
            .ok()
    }
}

/// Returns the key, or a digest of one that is too long for a line. Notes outlive an upgrade, so
/// the digest never changes: the first half of the key's SHA-256.
fn bounded_key(key: &str) -> String {
    if key.len() <= MAX_KEY_LENGTH && !key.contains(char::is_control) {
        return key.to_owned();
    }
    let digest: String = Sha256::digest(key)
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("digest-{digest}")
}

/// Counts the set-aside messages, and sets or clears `trouble`.
async fn update_trouble(channel: &ChannelName, notes: &dyn Notes, trouble: &Trouble) {
    let why = match notes.quarantined().await {
        Ok(aside) if aside.count == 0 => None,
        Ok(aside) => {
            let which = if aside.count == 1 {
                "1 message was".to_owned()
            } else {
                format!("{} messages were", aside.count)
            };
            Some(format!(
                "{which} set aside after ending the program {MAX_ATTEMPTS} times; look at what is in {} and remove it",
                aside.folder
            ))
        }
        Err(error) => {
            tracing::warn!(%channel, %error, "what was set aside cannot be counted");
            return;
        }
    };
    trouble.set(why);
}

/// Clears the trouble after the operator removed the set-aside messages. Does not return.
async fn watch_set_aside(channel: ChannelName, notes: Arc<dyn Notes>, trouble: Arc<Trouble>) {
    loop {
        trouble.wait_until_set().await;
        tokio::time::sleep(CHECK_INTERVAL).await;
        update_trouble(&channel, notes.as_ref(), &trouble).await;
    }
}
