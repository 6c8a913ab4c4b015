//! Dead letters: a message that ends the process each time it is handled is set aside after a few
//! attempts.
//!
//! Decision: an attempt is noted before any content is parsed, and removed when the content became
//! a message. The note is a small file that outlives the process and is not synced: no parser ends
//! a machine, and a sync for every event of a busy chat would cost more than its handling. Events
//! of one batch are handled one at a time by the next process, so that none is blamed for another,
//! or for a turn at the same time, because suspects of both kinds take one permit. A turn may run
//! for long, so the wait for it is limited to the first minute. A note that cannot be written
//! delays no event; the attempt does not count then.
//!
//! A channel is `degraded` until the operator has removed the files of set-aside messages.
//!
//! It does not parse messages and does not confirm them to a platform.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelName, Liveness, Notes};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::backoff;
use crate::trouble::Trouble;

/// The name of the note with the attempts.
const NOTE: &str = "tries";
/// Attempts after which a message is set aside.
const MAX_ATTEMPTS: u32 = 4;
/// Most events in the note; the oldest is dropped first.
const MAX_ENTRIES: usize = 512;
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
    log: Mutex<AttemptLog>,
    /// Held while the note is written, so that the last change stays.
    write_lock: tokio::sync::Mutex<()>,
    slots: Semaphore,
    /// The reason why the channel is degraded.
    trouble: Arc<Trouble>,
}

#[derive(Debug, Default)]
struct AttemptLog {
    notes: Option<Arc<dyn Notes>>,
    others: Option<OtherSuspects>,
    /// The oldest first.
    attempts: VecDeque<(String, AttemptCount)>,
    /// `false` if the note says something else.
    is_written: bool,
}

/// Suspects elsewhere: in other channels, and among turns.
#[derive(Clone, Debug)]
struct OtherSuspects {
    permit: Arc<Semaphore>,
    wait_until: Instant,
}

/// Attempts at one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AttemptCount {
    /// Attempts of earlier processes.
    earlier: u32,
    is_under_way: bool,
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
            log: Mutex::default(),
            write_lock: tokio::sync::Mutex::const_new(()),
            slots: Semaphore::new(MAX_CONCURRENT as usize),
            trouble: Arc::default(),
        }
    }

    /// Begins to count, with the attempts of earlier processes. The channel uses the returned
    /// context, whose signs of life report set-aside messages.
    pub async fn open(&self, context: &ChannelContext) -> ChannelContext {
        let is_first = self.log().notes.is_none();
        if is_first {
            let text = context.notes.read(NOTE).await.unwrap_or_else(|error| {
                tracing::warn!(channel = %self.channel, %error, "earlier tries are not known");
                None
            });
            let mut log = self.log();
            log.attempts = parse(&text.unwrap_or_default());
            log.is_written = true;
            log.notes = Some(Arc::clone(&context.notes));
            log.others = Some(OtherSuspects::of(&context.suspects));
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
        let others = self.log().others.clone().filter(|_| is_suspect);
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
            self.set_aside(key, bytes, progress).await;
            return None;
        }
        Some(self.enter(&[key.to_owned()]).await)
    }

    /// Keeps the bytes of an event that is not to be handled any more. Returns when they are on
    /// disk, however long that takes.
    pub async fn set_aside(&self, key: &str, bytes: &[u8], progress: &dyn Liveness) {
        let Some(notes) = self.log().notes.clone() else {
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
            let mut log = self.log();
            for (_, attempts) in &mut log.attempts {
                attempts.is_under_way = false;
            }
            log.attempts.retain(|(_, attempts)| attempts.earlier > 0);
            log.is_written = false;
        }
        self.write().await;
    }

    /// Reports set-aside messages as the reason for `degraded`.
    async fn check_set_aside(&self) {
        let Some(notes) = self.log().notes.clone() else {
            return;
        };
        update_trouble(&self.channel, notes.as_ref(), &self.trouble).await;
    }

    fn earlier_attempts(&self, key: &str) -> u32 {
        let key = bounded_key(key);
        let log = self.log();
        log.attempts
            .iter()
            .find(|(noted, _)| *noted == key)
            .map_or(0, |(_, attempts)| attempts.earlier)
    }

    async fn set_under_way(&self, keys: &[String], is_under_way: bool) {
        self.log().set_under_way(keys, is_under_way);
        self.write().await;
    }

    async fn write(&self) {
        let _write_lock = self.write_lock.lock().await;
        let (notes, text) = {
            let mut log = self.log();
            let Some(notes) = log.notes.clone().filter(|_| !log.is_written) else {
                return;
            };
            log.is_written = true;
            (notes, log.to_text())
        };
        if let Err(error) = notes.write_unsynced(NOTE, &text).await {
            tracing::warn!(channel = %self.channel, %error, "a try cannot be noted and does not count");
            self.log().is_written = false;
        }
    }

    fn log(&self) -> MutexGuard<'_, AttemptLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handling<'_> {
    /// Forgets the attempts, because the message was handled without harm. Those of a suspect are
    /// removed from the disk at once, others with the next write, because only a kill brings them
    /// back.
    pub async fn end(self) {
        {
            let mut log = self.quarantine.log();
            log.attempts.retain(|(key, _)| !self.keys.contains(key));
            if self.is_suspect {
                log.is_written = false;
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

impl AttemptLog {
    fn set_under_way(&mut self, keys: &[String], is_under_way: bool) {
        for key in keys {
            match self.attempts.iter_mut().find(|(noted, _)| noted == key) {
                Some((_, attempts)) if attempts.is_under_way == is_under_way => continue,
                Some((_, attempts)) => attempts.is_under_way = is_under_way,
                None => self.attempts.push_back((
                    key.clone(),
                    AttemptCount {
                        earlier: 0,
                        is_under_way,
                    },
                )),
            }
            self.is_written = false;
        }
        let surplus = self.attempts.len().saturating_sub(MAX_ENTRIES);
        self.attempts.drain(..surplus);
    }

    fn to_text(&self) -> String {
        let line = |(key, attempts): &(String, AttemptCount)| {
            format!(
                "{} {key}\n",
                attempts
                    .earlier
                    .saturating_add(u32::from(attempts.is_under_way))
            )
        };
        self.attempts.iter().map(line).collect()
    }
}

/// Parses a note; malformed lines are left out.
fn parse(text: &str) -> VecDeque<(String, AttemptCount)> {
    let line = |line: &str| {
        let (count, key) = line.split_once(' ')?;
        let earlier = count.parse().ok().filter(|count| *count > 0)?;
        Some((
            key.to_owned(),
            AttemptCount {
                earlier,
                is_under_way: false,
            },
        ))
    };
    text.lines().filter_map(line).take(MAX_ENTRIES).collect()
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nanobot_testkit::NoteBook;

    use super::*;

    /// Counts signs of life, and keeps the last reason for degradation.
    #[derive(Debug, Default)]
    struct RecordedLiveness {
        alive: AtomicUsize,
        why: Mutex<String>,
    }

    impl Liveness for RecordedLiveness {
        fn alive(&self) {
            self.alive.fetch_add(1, Ordering::Relaxed);
        }

        fn degraded(&self, why: &str) {
            why.clone_into(&mut self.why.lock().unwrap());
        }

        fn impaired(&self, why: &str) {
            self.degraded(why);
        }
    }

    /// A process that begins with these notes, without a channel around it.
    async fn process(notes: &Arc<NoteBook>) -> Quarantine {
        let quarantine = Quarantine::new("chat".into());
        let text = notes.read(NOTE).await.unwrap();
        {
            let mut log = quarantine.log();
            log.attempts = parse(&text.unwrap_or_default());
            log.notes = Some(Arc::<NoteBook>::clone(notes));
            log.is_written = true;
        }
        quarantine
    }

    fn noted(notes: &NoteBook) -> String {
        notes.all().get(NOTE).cloned().unwrap_or_default()
    }

    fn keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[tokio::test]
    async fn repeatedly_crashing_message_is_set_aside_alone() {
        let notes = Arc::new(NoteBook::default());
        let progress = RecordedLiveness::default();
        // All of a batch is under way when the first process ends.
        process(&notes).await.begin(&keys(&["bad", "good"])).await;
        assert_eq!(noted(&notes), "1 bad\n1 good\n");
        for count in 2..=MAX_ATTEMPTS {
            let process = process(&notes).await;
            assert!(
                process.is_suspect("bad") && !process.is_exceeded("bad"),
                "{count}"
            );
            let handling = process.admit("bad", b"{}", &progress).await;
            assert_eq!(noted(&notes), format!("{count} bad\n1 good\n"));
            drop(handling);
        }
        let process = process(&notes).await;
        assert!(process.admit("bad", b"{}", &progress).await.is_none());
        assert_eq!(
            notes.all_quarantined().into_iter().collect::<Vec<_>>(),
            [("bad".to_owned(), b"{}".to_vec())]
        );
        process
            .admit("good", b"{}", &progress)
            .await
            .expect("it is handled")
            .end()
            .await;
        assert_eq!(noted(&notes), format!("{MAX_ATTEMPTS} bad\n"));
    }

    #[tokio::test]
    async fn suspect_is_handled_exclusively() {
        let notes = Arc::new(NoteBook::default());
        process(&notes).await.begin(&keys(&["old"])).await;
        let process = process(&notes).await;
        let fresh = process.enter(&keys(&["new"])).await;
        let suspected = keys(&["old"]);
        let mut waiting = Box::pin(process.enter(&suspected));
        assert!(
            poll_once(&mut waiting).is_none(),
            "something else is under way"
        );
        fresh.end().await;
        let suspect = waiting.await;
        let others = keys(&["newer"]);
        let mut later = Box::pin(process.enter(&others));
        assert!(poll_once(&mut later).is_none(), "a suspect is under way");
        suspect.pause().await;
        assert_eq!(noted(&notes), "1 old\n", "nothing was noted meanwhile");
        later.await.end().await;
    }

    #[tokio::test(start_paused = true)]
    async fn suspect_waits_a_minute_for_other_suspects() {
        let notes = Arc::new(NoteBook::default());
        process(&notes).await.begin(&keys(&["old"])).await;
        let (process, permit) = (process(&notes).await, Arc::new(Semaphore::new(1)));
        process.log().others = Some(OtherSuspects::of(&permit));
        let suspected = keys(&["old"]);

        let turn = permit.acquire().await.unwrap();
        process.enter(&keys(&["new"])).await.end().await;
        let mut waiting = Box::pin(process.enter(&suspected));
        assert!(poll_once(&mut waiting).is_none(), "a turn is under way");
        drop(turn);
        let suspect = waiting.await;
        assert_eq!(permit.available_permits(), 0, "no turn begins meanwhile");
        suspect.pause().await;

        let _turn = permit.acquire().await.unwrap();
        let opened = process.log().others.as_ref().unwrap().wait_until - OTHERS_TIMEOUT;
        process.enter(&suspected).await.pause().await;
        assert_eq!(opened.elapsed(), OTHERS_TIMEOUT);
        process.enter(&suspected).await.end().await;
        assert_eq!(opened.elapsed(), OTHERS_TIMEOUT, "the time is over");
    }

    /// Polls a future once.
    fn poll_once<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn ordinary_event_costs_one_write_and_close_clears_attempts() {
        let notes = Arc::new(NoteBook::default());
        let quarantine = process(&notes).await;
        quarantine.begin(&keys(&["1", "2", "3"])).await;
        let written = noted(&notes);
        for key in ["1", "2", "3"] {
            let handling = quarantine.enter(&keys(&[key])).await;
            assert_eq!(noted(&notes), written);
            handling.end().await;
            assert_eq!(noted(&notes), written, "the next write forgets it");
        }
        let under_way = quarantine.enter(&keys(&["4"])).await;
        assert_eq!(noted(&notes), "1 4\n");
        // The same process takes it again after its run ended with an error.
        drop(under_way);
        let under_way = quarantine.enter(&keys(&["4"])).await;
        assert_eq!(noted(&notes), "1 4\n");
        drop(under_way);
        quarantine.close().await;
        assert_eq!(noted(&notes), "");
    }

    /// Notes of one release are read by the next.
    #[test]
    fn key_digest_is_stable() {
        let short = "k".repeat(MAX_KEY_LENGTH);
        assert_eq!(bounded_key(&short), short);
        assert_eq!(
            bounded_key(&format!("{short}k")),
            "digest-f39cdc2584758c99cf81c1f41d2572f5"
        );
        assert_eq!(
            bounded_key("a\n"),
            "digest-87428fc522803d31065e7bce3cf03fe4"
        );
    }

    #[tokio::test]
    async fn attempt_note_is_bounded() {
        let notes = Arc::new(NoteBook::default());
        let quarantine = process(&notes).await;
        let long = |number: usize| format!("{number}/{}", "x".repeat(1000));
        for number in 0..MAX_ENTRIES + 5 {
            quarantine.begin(&[long(number)]).await;
        }
        quarantine.begin(&keys(&["two\nlines"])).await;
        let text = noted(&notes);
        assert_eq!(text.lines().count(), MAX_ENTRIES);
        assert!(text.len() < nanobot_channel::MAX_NOTE_BYTES && parse(&text).len() == MAX_ENTRIES);
        assert!(
            !process(&notes).await.is_suspect(&long(0))
                && process(&notes).await.is_suspect("two\nlines")
        );
        for text in ["x", "1", "0 a", "-1 a", "99999999999 a", "\0"] {
            assert_eq!(parse(text), VecDeque::new(), "{text:?}");
        }
        assert_eq!(parse(&format!("{} a", u32::MAX)).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn set_aside_messages_impair_liveness_until_removed() {
        let (notes, seen) = (
            Arc::new(NoteBook::default()),
            Arc::new(RecordedLiveness::default()),
        );
        let quarantine = process(&notes).await;
        let supervisor: Arc<dyn Liveness> = Arc::<RecordedLiveness>::clone(&seen);
        let reporting = quarantine.trouble.wrap(&supervisor);
        reporting.alive();
        assert_eq!(seen.alive.load(Ordering::Relaxed), 1);
        quarantine.set_aside("bad", b"{}", reporting.as_ref()).await;
        reporting.alive();
        let why = "1 message was set aside after ending the program 4 times; look at what is in memory and remove it";
        assert_eq!(
            (
                seen.alive.load(Ordering::Relaxed),
                seen.why.lock().unwrap().as_str()
            ),
            (1, why)
        );
        let watching = watch_set_aside(
            "chat".into(),
            Arc::<NoteBook>::clone(&notes),
            Arc::clone(&quarantine.trouble),
        );
        notes.remove_quarantined("bad");
        assert!(
            tokio::time::timeout(CHECK_INTERVAL * 2, watching)
                .await
                .is_err(),
            "the watch does not end"
        );
        reporting.alive();
        assert_eq!(seen.alive.load(Ordering::Relaxed), 2);
    }
}
