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

/// The note that keeps the tries.
const NOTE: &str = "tries";
/// Tries after which something is set aside.
const TRIES: u32 = 4;
/// Most that is counted at a time; the oldest is dropped first.
const COUNTED: usize = 512;
/// Longest key, in bytes. Longer ones are replaced by a digest.
const LONGEST_KEY: usize = 64;
/// Most messages that are handled at a time.
const AT_A_TIME: u32 = 1024;
/// Interval of looking whether a person removed what was set aside.
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// Time after opening in which a suspect waits for suspects elsewhere.
const WAIT_FOR_OTHERS: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Counts tries over restarts, and sets aside what had too many.
#[derive(Debug)]
pub struct Quarantine {
    channel: ChannelName,
    known: Mutex<AttemptLog>,
    /// Held while the note is written, so that the last change stays.
    pen: tokio::sync::Mutex<()>,
    turns: Semaphore,
    /// The reason why the channel is degraded.
    trouble: Arc<Trouble>,
}

#[derive(Debug, Default)]
struct AttemptLog {
    notes: Option<Arc<dyn Notes>>,
    others: Option<Others>,
    /// The oldest first.
    tries: VecDeque<(String, Tries)>,
    /// `false` if the note says something else.
    is_written: bool,
}

/// Suspects elsewhere: in other channels, and among turns.
#[derive(Clone, Debug)]
struct Others {
    permit: Arc<Semaphore>,
    wait_until: Instant,
}

/// Tries of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tries {
    /// Attempts of earlier processes.
    before: u32,
    is_under_way: bool,
}

/// A message that is being handled. If it is dropped without [`Self::end`], its attempt counts when
/// the process is killed.
#[derive(Debug)]
#[must_use = "its try goes on until it is ended"]
pub struct Handling<'a> {
    quarantine: &'a Quarantine,
    keys: Vec<String>,
    is_suspect: bool,
    _turn: Option<SemaphorePermit<'a>>,
    _others: Option<OwnedSemaphorePermit>,
}

impl Quarantine {
    /// The tries of one channel. Nothing is counted before [`Self::open`].
    #[must_use]
    pub fn new(channel: ChannelName) -> Self {
        Self {
            channel,
            known: Mutex::default(),
            pen: tokio::sync::Mutex::const_new(()),
            turns: Semaphore::new(AT_A_TIME as usize),
            trouble: Arc::default(),
        }
    }

    /// Begins to count, with the attempts of earlier processes. The channel uses the returned
    /// context, whose signs of life report set-aside messages.
    pub async fn open(&self, context: &ChannelContext) -> ChannelContext {
        let is_first = self.known().notes.is_none();
        if is_first {
            let text = context.notes.read(NOTE).await.unwrap_or_else(|error| {
                tracing::warn!(channel = %self.channel, %error, "earlier tries are not known");
                None
            });
            let mut known = self.known();
            known.tries = read(&text.unwrap_or_default());
            known.is_written = true;
            known.notes = Some(Arc::clone(&context.notes));
            known.others = Some(Others::of(&context.suspects));
        }
        self.look().await;
        let (notes, trouble) = (Arc::clone(&context.notes), Arc::clone(&self.trouble));
        let (cancel, channel) = (context.cancel.clone(), self.channel.clone());
        context.tasks.spawn(async move {
            cancel
                .run_until_cancelled(watch_aside(channel, notes, trouble))
                .await;
        });
        ChannelContext {
            progress: self.trouble.shown_to(&context.progress),
            ..context.clone()
        }
    }

    /// `true` if earlier processes ended while it, or another message at the same time, was
    /// handled.
    #[must_use]
    pub fn is_suspect(&self, key: &str) -> bool {
        self.before(key) > 0
    }

    /// `true` if it is to be [set aside](Self::set_aside) unread.
    #[must_use]
    pub fn is_exceeded(&self, key: &str) -> bool {
        self.before(key) >= TRIES
    }

    /// Notes the tries of events that came together, in one write. None of them is to be a suspect.
    pub async fn begin(&self, keys: &[String]) {
        let keys: Vec<String> = keys.iter().map(|key| bounded(key)).collect();
        self.mark(&keys, true).await;
    }

    /// Waits until these may be handled, and notes the try. A suspect is handled while nothing else
    /// of this channel is, and in the first minute no suspect elsewhere.
    pub async fn enter(&self, keys: &[String]) -> Handling<'_> {
        let keys: Vec<String> = keys.iter().map(|key| bounded(key)).collect();
        let is_suspect = keys.iter().any(|key| self.before(key) > 0);
        let others = self.known().others.clone().filter(|_| is_suspect);
        let others = match others {
            Some(others) => others.wait().await,
            None => None,
        };
        let turn = self
            .turns
            .acquire_many(if is_suspect { AT_A_TIME } else { 1 })
            .await;
        self.mark(&keys, true).await;
        Handling {
            quarantine: self,
            keys,
            is_suspect,
            _turn: turn.ok(),
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
        let Some(notes) = self.known().notes.clone() else {
            return;
        };
        let mut tries = 0;
        while let Err(error) = notes.quarantine(&bounded(key), bytes).await {
            progress.degraded(&format!(
                "a message that ended the program cannot be set aside: {error}"
            ));
            tokio::time::sleep(backoff(FIRST_PAUSE, tries)).await;
            tries = tries.saturating_add(1);
        }
        tracing::error!(
            channel = %self.channel, key, tries = TRIES,
            "a message ended the program each time it was handled; it is set aside unread"
        );
        self.look().await;
    }

    /// Removes the attempts under way, because the process ends regularly.
    pub async fn close(&self) {
        {
            let mut known = self.known();
            for (_, tries) in &mut known.tries {
                tries.is_under_way = false;
            }
            known.tries.retain(|(_, tries)| tries.before > 0);
            known.is_written = false;
        }
        self.write().await;
    }

    /// Counts what was set aside.
    async fn look(&self) {
        let Some(notes) = self.known().notes.clone() else {
            return;
        };
        look(&self.channel, notes.as_ref(), &self.trouble).await;
    }

    fn before(&self, key: &str) -> u32 {
        let key = bounded(key);
        let known = self.known();
        known
            .tries
            .iter()
            .find(|(noted, _)| *noted == key)
            .map_or(0, |(_, tries)| tries.before)
    }

    async fn mark(&self, keys: &[String], is_under_way: bool) {
        self.known().mark(keys, is_under_way);
        self.write().await;
    }

    async fn write(&self) {
        let _pen = self.pen.lock().await;
        let (notes, text) = {
            let mut known = self.known();
            let Some(notes) = known.notes.clone().filter(|_| !known.is_written) else {
                return;
            };
            known.is_written = true;
            (notes, known.text())
        };
        if let Err(error) = notes.write_unsynced(NOTE, &text).await {
            tracing::warn!(channel = %self.channel, %error, "a try cannot be noted and does not count");
            self.known().is_written = false;
        }
    }

    fn known(&self) -> MutexGuard<'_, AttemptLog> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handling<'_> {
    /// Forgets the attempts, because the message was handled without harm. Those of a suspect are
    /// removed from the disk at once, others with the next write, because only a kill brings them
    /// back.
    pub async fn end(self) {
        {
            let mut known = self.quarantine.known();
            known.tries.retain(|(key, _)| !self.keys.contains(key));
            if self.is_suspect {
                known.is_written = false;
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
            self.quarantine.mark(&self.keys, false).await;
        }
    }
}

impl Others {
    fn of(permit: &Arc<Semaphore>) -> Self {
        Self {
            permit: Arc::clone(permit),
            wait_until: Instant::now() + WAIT_FOR_OTHERS,
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
    fn mark(&mut self, keys: &[String], is_under_way: bool) {
        for key in keys {
            match self.tries.iter_mut().find(|(noted, _)| noted == key) {
                Some((_, tries)) if tries.is_under_way == is_under_way => continue,
                Some((_, tries)) => tries.is_under_way = is_under_way,
                None => self.tries.push_back((
                    key.clone(),
                    Tries {
                        before: 0,
                        is_under_way,
                    },
                )),
            }
            self.is_written = false;
        }
        let surplus = self.tries.len().saturating_sub(COUNTED);
        self.tries.drain(..surplus);
    }

    fn text(&self) -> String {
        let line = |(key, tries): &(String, Tries)| {
            format!(
                "{} {key}\n",
                tries.before.saturating_add(u32::from(tries.is_under_way))
            )
        };
        self.tries.iter().map(line).collect()
    }
}

/// Reads a note; lines that make no sense are none.
fn read(text: &str) -> VecDeque<(String, Tries)> {
    let line = |line: &str| {
        let (count, key) = line.split_once(' ')?;
        let before = count.parse().ok().filter(|count| *count > 0)?;
        Some((
            key.to_owned(),
            Tries {
                before,
                is_under_way: false,
            },
        ))
    };
    text.lines().filter_map(line).take(COUNTED).collect()
}

/// The key, or a digest of one that is too long for a line. Notes outlive an upgrade, so it is one
/// that never changes: the first half of its SHA-256.
fn bounded(key: &str) -> String {
    if key.len() <= LONGEST_KEY && !key.contains(char::is_control) {
        return key.to_owned();
    }
    let digest: String = Sha256::digest(key)
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("digest-{digest}")
}

/// Finds out whether something is set aside, and where.
async fn look(channel: &ChannelName, notes: &dyn Notes, trouble: &Trouble) {
    let why = match notes.quarantined().await {
        Ok(aside) if aside.count == 0 => None,
        Ok(aside) => {
            let which = if aside.count == 1 {
                "1 message was".to_owned()
            } else {
                format!("{} messages were", aside.count)
            };
            Some(format!(
                "{which} set aside after ending the program {TRIES} times; look at what is in {} and remove it",
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

/// Looks from time to time whether what was set aside is still there. Does not return.
async fn watch_aside(channel: ChannelName, notes: Arc<dyn Notes>, trouble: Arc<Trouble>) {
    loop {
        trouble.begun().await;
        tokio::time::sleep(LOOK_EVERY).await;
        look(&channel, notes.as_ref(), &trouble).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nanobot_testkit::NoteBook;

    use super::*;

    /// Signs of life, and the last reason why there was none.
    #[derive(Debug, Default)]
    struct Seen {
        alive: AtomicUsize,
        why: Mutex<String>,
    }

    impl Liveness for Seen {
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
            let mut known = quarantine.known();
            known.tries = read(&text.unwrap_or_default());
            known.notes = Some(Arc::<NoteBook>::clone(notes));
            known.is_written = true;
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
    async fn what_ends_process_after_process_is_set_aside_and_nothing_beside_it() {
        let notes = Arc::new(NoteBook::default());
        let progress = Seen::default();
        // All of a batch is under way when the first process ends.
        process(&notes).await.begin(&keys(&["bad", "good"])).await;
        assert_eq!(noted(&notes), "1 bad\n1 good\n");
        for count in 2..=TRIES {
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
        assert_eq!(noted(&notes), format!("{TRIES} bad\n"));
    }

    #[tokio::test]
    async fn a_suspect_is_handled_alone() {
        let notes = Arc::new(NoteBook::default());
        process(&notes).await.begin(&keys(&["old"])).await;
        let process = process(&notes).await;
        let fresh = process.enter(&keys(&["new"])).await;
        let suspected = keys(&["old"]);
        let mut waiting = Box::pin(process.enter(&suspected));
        assert!(
            futures_poll(&mut waiting).is_none(),
            "something else is under way"
        );
        fresh.end().await;
        let suspect = waiting.await;
        let others = keys(&["newer"]);
        let mut later = Box::pin(process.enter(&others));
        assert!(futures_poll(&mut later).is_none(), "a suspect is under way");
        suspect.pause().await;
        assert_eq!(noted(&notes), "1 old\n", "nothing was noted meanwhile");
        later.await.end().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspect_waits_a_minute_for_suspects_elsewhere_and_others_do_not() {
        let notes = Arc::new(NoteBook::default());
        process(&notes).await.begin(&keys(&["old"])).await;
        let (process, permit) = (process(&notes).await, Arc::new(Semaphore::new(1)));
        process.known().others = Some(Others::of(&permit));
        let suspected = keys(&["old"]);

        let turn = permit.acquire().await.unwrap();
        process.enter(&keys(&["new"])).await.end().await;
        let mut waiting = Box::pin(process.enter(&suspected));
        assert!(futures_poll(&mut waiting).is_none(), "a turn is under way");
        drop(turn);
        let suspect = waiting.await;
        assert_eq!(permit.available_permits(), 0, "no turn begins meanwhile");
        suspect.pause().await;

        let _turn = permit.acquire().await.unwrap();
        let opened = process.known().others.as_ref().unwrap().wait_until - WAIT_FOR_OTHERS;
        process.enter(&suspected).await.pause().await;
        assert_eq!(opened.elapsed(), WAIT_FOR_OTHERS);
        process.enter(&suspected).await.end().await;
        assert_eq!(opened.elapsed(), WAIT_FOR_OTHERS, "the time is over");
    }

    /// The outcome of a future that need not wait.
    fn futures_poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn an_ordinary_event_costs_one_write_and_an_orderly_end_blames_none() {
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
    fn the_digest_of_a_key_is_the_same_for_ever() {
        let short = "k".repeat(LONGEST_KEY);
        assert_eq!(bounded(&short), short);
        assert_eq!(
            bounded(&format!("{short}k")),
            "digest-f39cdc2584758c99cf81c1f41d2572f5"
        );
        assert_eq!(bounded("a\n"), "digest-87428fc522803d31065e7bce3cf03fe4");
    }

    #[tokio::test]
    async fn what_is_noted_is_bounded() {
        let notes = Arc::new(NoteBook::default());
        let quarantine = process(&notes).await;
        let long = |number: usize| format!("{number}/{}", "x".repeat(1000));
        for number in 0..COUNTED + 5 {
            quarantine.begin(&[long(number)]).await;
        }
        quarantine.begin(&keys(&["two\nlines"])).await;
        let text = noted(&notes);
        assert_eq!(text.lines().count(), COUNTED);
        assert!(text.len() < nanobot_channel::MAX_NOTE_BYTES && read(&text).len() == COUNTED);
        assert!(
            !process(&notes).await.is_suspect(&long(0))
                && process(&notes).await.is_suspect("two\nlines")
        );
        for text in ["x", "1", "0 a", "-1 a", "99999999999 a", "\0"] {
            assert_eq!(read(text), VecDeque::new(), "{text:?}");
        }
        assert_eq!(read(&format!("{} a", u32::MAX)).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_say_what_is_set_aside_until_it_is_removed() {
        let (notes, seen) = (Arc::new(NoteBook::default()), Arc::new(Seen::default()));
        let quarantine = process(&notes).await;
        let supervisor: Arc<dyn Liveness> = Arc::<Seen>::clone(&seen);
        let standing = quarantine.trouble.shown_to(&supervisor);
        standing.alive();
        assert_eq!(seen.alive.load(Ordering::Relaxed), 1);
        quarantine.set_aside("bad", b"{}", standing.as_ref()).await;
        standing.alive();
        let why = "1 message was set aside after ending the program 4 times; look at what is in memory and remove it";
        assert_eq!(
            (
                seen.alive.load(Ordering::Relaxed),
                seen.why.lock().unwrap().as_str()
            ),
            (1, why)
        );
        let looking = watch_aside(
            "chat".into(),
            Arc::<NoteBook>::clone(&notes),
            Arc::clone(&quarantine.trouble),
        );
        notes.remove_quarantined("bad");
        assert!(
            tokio::time::timeout(LOOK_EVERY * 2, looking).await.is_err(),
            "it goes on looking"
        );
        standing.alive();
        assert_eq!(seen.alive.load(Ordering::Relaxed), 2);
    }
}
