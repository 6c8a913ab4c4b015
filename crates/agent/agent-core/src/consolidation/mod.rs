//! Keeps conversations within the model's window: old messages are summarised into memory.
//!
//! Decision: a conversation is summarised after a turn, in a background task that no turn waits
//! for. A summary is flushed to memory before the cursor moves, and every step is noted in the
//! session before it is taken, so a crash loses nothing and repeats nothing. The model is asked at
//! most three times for a chunk, once after each turn. After that the messages themselves go into
//! the history, so consolidation terminates whatever the model does. A chunk that took the person's
//! consent waits for it again instead.
//!
//! Messages never leave the log. Until they are summarised, the engine leaves what does not fit out
//! of its requests.

mod backlog;
mod boundary;
mod notifier;
mod origin;
mod pieces;
mod report;
mod run;
mod save_memory;
mod settings;
mod state;
mod summarise;
mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_bus::EventFeed;
use nanobot_context::{Calibrator, ContextBuilder};
use nanobot_provider::ProviderRouter;
use nanobot_session::{Entry, ReadFrom, Seq, SessionError, SessionStore, SessionView};
use nanobot_types::{ModelId, SessionKey};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use backlog::BacklogReport;
pub use notifier::{BacklogQuestion, NoNotifier, Notifier, QuestionOutcome};
pub use report::{CompactReport, SummaryProgress};
pub use settings::ConsolidationSettings;
pub use waiting::WaitingMessages;

pub(crate) use boundary::{Size, old_messages, size};
pub(crate) use state::{has_pending, last_summary, messages_waiting, metadata_has_pending};

use self::backlog::OfferedQuestions;
use self::state::{Consent, Pending};
use crate::budget::{self, TokenBudget};
use crate::locks::KeyedLocks;

/// Maximum number of concurrent summaries over all sessions.
const MAX_CONCURRENT: usize = 2;
/// Maximum number of sessions whose size is remembered.
const MAX_SESSIONS: usize = 1024;
/// Maximum number of attempts to append when others write to the same session.
const TRIES: u32 = 8;
/// Reads the metadata of a session without its messages.
const STATE: ReadFrom = ReadFrom::Seq(Seq(u64::MAX));
/// Assumed tokens of system prompt and tools for a session that has had no turn yet.
const DEFAULT_PROMPT: usize = 2_500;
/// Pauses after the first and the second failure of messages that no turn waits for.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_mins(1), Duration::from_mins(5)];
/// Fill level, in tenths of the room for a conversation, from which on it is summarised.
const FULL: usize = 8;

/// Facts about a session, remembered since its last turn.
#[derive(Clone, Copy, Debug)]
struct SessionEstimate {
    /// Tokens of system prompt and tools.
    fixed: usize,
    /// `true` if there is something to summarise.
    due: bool,
}

/// Summarises conversations. One per agent.
#[derive(Debug)]
pub(crate) struct Consolidator {
    settings: ConsolidationSettings,
    router: Arc<ProviderRouter>,
    sessions: Arc<dyn SessionStore>,
    context: Arc<ContextBuilder>,
    calibrator: Arc<Calibrator>,
    events: EventFeed,
    tasks: TaskTracker,
    closing: CancellationToken,
    retries: TaskTracker,
    /// Fires when no retry may begin any more.
    retiring: CancellationToken,
    /// Sessions whose summaries failed and are retried after a pause.
    paused: Mutex<HashSet<SessionKey>>,
    offered: Mutex<OfferedQuestions>,
    permits: Semaphore,
    running: Mutex<HashSet<SessionKey>>,
    estimates: Mutex<HashMap<SessionKey, SessionEstimate>>,
    /// Windows with which the servers of models run them, by session.
    served: Mutex<HashMap<SessionKey, usize>>,
    /// That of the model that writes summaries; 0 if it is unknown.
    served_for_summaries: AtomicUsize,
    /// Held while the consolidation state of a session is changed.
    states: KeyedLocks,
    /// Models that do not support a forced tool choice.
    unforced: Mutex<HashSet<ModelId>>,
}

/// The components of a consolidator.
pub(crate) struct ConsolidatorParts {
    pub(crate) settings: ConsolidationSettings,
    pub(crate) router: Arc<ProviderRouter>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) context: Arc<ContextBuilder>,
    pub(crate) calibrator: Arc<Calibrator>,
    pub(crate) events: EventFeed,
}

/// What to summarise next.
#[derive(Debug)]
enum NextChunk {
    /// A chunk.
    Chunk(Box<state::Chunk>),
    /// Nothing before the person agrees to the cost.
    AskFirst,
    /// Nothing.
    Nothing,
}

impl NextChunk {
    fn of(noted: Option<state::Chunk>) -> Self {
        noted.map_or(Self::Nothing, |chunk| Self::Chunk(Box::new(chunk)))
    }
}

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SummaryExtent {
    /// Summarise what must leave.
    Due,
    /// Summarise everything that may leave.
    Everything,
}

impl Consolidator {
    pub(crate) fn new(parts: ConsolidatorParts) -> Self {
        Self {
            settings: parts.settings,
            router: parts.router,
            sessions: parts.sessions,
            context: parts.context,
            calibrator: parts.calibrator,
            events: parts.events,
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            retries: TaskTracker::new(),
            retiring: CancellationToken::new(),
            paused: Mutex::default(),
            offered: Mutex::default(),
            permits: Semaphore::new(MAX_CONCURRENT),
            running: Mutex::default(),
            estimates: Mutex::default(),
            served: Mutex::default(),
            served_for_summaries: AtomicUsize::new(0),
            states: KeyedLocks::default(),
            unforced: Mutex::default(),
        }
    }

    pub(crate) fn settings(&self) -> &ConsolidationSettings {
        &self.settings
    }

    pub(crate) fn calibrator(&self) -> &Arc<Calibrator> {
        &self.calibrator
    }

    /// Returns the model that is called first.
    pub(crate) fn model(&self) -> ModelId {
        self.router
            .candidates()
            .next()
            .map_or_else(|| ModelId::from(""), |candidate| candidate.model.clone())
    }

    /// Records the window with which the model of a session is run; 0 if it is unknown.
    pub(crate) fn record_window(&self, session: &SessionKey, tokens: usize) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens == 0 {
            served.remove(session);
            return;
        }
        // It is recorded again with the next turn of the session.
        if served.len() >= MAX_SESSIONS && !served.contains_key(session) {
            served.clear();
        }
        served.insert(session.clone(), tokens);
    }

    /// Returns the window of a session in tokens: the setting, or a lower one that was recorded; 0
    /// for no limit.
    pub(crate) fn window(&self, session: &SessionKey) -> usize {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = served.get(session).copied().unwrap_or(0);
        budget::lower(self.settings.window, recorded)
    }

    /// Returns the maximum number of tokens of a session's requests; 0 for no limit.
    pub(crate) fn token_budget(&self, session: &SessionKey) -> usize {
        budget::of_window(self.window(session), self.settings.max_output)
    }

    /// Returns the budget of a session's requests.
    fn budget(&self, session: &SessionKey) -> TokenBudget {
        self.budget_of(self.token_budget(session), session)
    }

    /// Returns the budget of the requests for summaries of a session, which the default model
    /// writes.
    fn summary_budget(&self, session: &SessionKey) -> TokenBudget {
        let served = self.served_for_summaries.load(Ordering::Relaxed);
        let limit = budget::of_window(served, self.settings.max_output);
        self.budget_of(budget::lower(self.token_budget(session), limit), session)
    }

    fn budget_of(&self, tokens: usize, session: &SessionKey) -> TokenBudget {
        TokenBudget::of(tokens, &self.calibrator, &self.model(), session)
    }

    /// Returns the part of the budget that the conversation may take; `usize::MAX` for no limit.
    fn room(&self, session: &SessionKey, fixed: usize) -> usize {
        self.budget(session).room(fixed).unwrap_or(usize::MAX)
    }

    /// Records the size of a session after a turn: the tokens of its prompt and its conversation,
    /// and whether something already waits to be summarised.
    pub(crate) fn record_size(
        &self,
        session: &SessionKey,
        fixed: usize,
        size: Size,
        has_pending: bool,
    ) {
        let due = self.settings.enabled && (has_pending || self.is_full(session, fixed, size));
        let mut estimates = self.estimates();
        if estimates.len() >= MAX_SESSIONS && !estimates.contains_key(session) {
            estimates.retain(|_, estimate| estimate.due);
        }
        estimates.insert(session.clone(), SessionEstimate { fixed, due });
    }

    fn is_full(&self, session: &SessionKey, fixed: usize, size: Size) -> bool {
        let room = self.room(session, fixed);
        let too_long = room < usize::MAX && size.tokens >= room / 10 * FULL;
        too_long
            || self
                .settings
                .memory_window
                .is_some_and(|window| size.messages > window)
    }

    /// Returns `true` if the conversation of a session no longer fits and its summaries failed, so
    /// that the messages themselves have to go into the history.
    pub(crate) fn must_make_room(&self, view: &SessionView, session: &SessionKey) -> bool {
        let fixed = self
            .estimates()
            .get(session)
            .map_or(DEFAULT_PROMPT, |estimate| estimate.fixed);
        let failed = Pending::of(view)
            .chunks
            .iter()
            .any(|chunk| chunk.failures > 0 && chunk.consent == Consent::NotNeeded);
        failed
            && self.settings.enabled
            && size(view).tokens > self.room(session, fixed)
            && !self.is_running(session)
    }

    /// Starts to summarise a session in the background if there is something to summarise.
    /// After a failure that waits for its retry, the retry does it.
    pub(crate) fn start(self: &Arc<Self>, session: &SessionKey, notifier: Arc<dyn Notifier>) {
        if self.paused().contains(session) {
            return;
        }
        let is_due = self
            .estimates()
            .get_mut(session)
            .is_some_and(|estimate| std::mem::take(&mut estimate.due));
        if !is_due || self.tasks.is_closed() {
            return;
        }
        let (this, session) = (Arc::clone(self), session.clone());
        self.tasks.spawn(async move {
            let report = this.run(&session, SummaryExtent::Due, &*notifier).await;
            tracing::info!(%session, messages = report.messages, trouble = report.error, "summarised a conversation");
            if report.error.is_some() {
                this.retry_later(&session, notifier).await;
            }
            this.calibrator.save().await;
        });
    }

    /// Retries failed summaries of messages that have left their conversation, after a pause. No
    /// turn of that conversation retries them.
    async fn retry_later(self: &Arc<Self>, session: &SessionKey, notifier: Arc<dyn Notifier>) {
        let Ok(view) = self.sessions.read(session, STATE).await else {
            return;
        };
        let failures = Pending::of(&view)
            .next()
            .map_or(0, |chunk| if chunk.left { chunk.failures } else { 0 });
        let Some(number) = usize::try_from(failures)
            .ok()
            .and_then(|n| n.checked_sub(1))
        else {
            return;
        };
        let pause = RETRY_PAUSES.get(number).or(RETRY_PAUSES.last());
        let pause = pause.copied().unwrap_or_default();
        if self.retries.is_closed() || !self.paused().insert(session.clone()) {
            return;
        }
        let (this, session) = (Arc::clone(self), session.clone());
        self.retries.spawn(async move {
            let rested = tokio::time::sleep(pause);
            if this.retiring.run_until_cancelled(rested).await.is_some() {
                this.end_pause(&session);
                this.record_pending(&session);
                this.start(&session, notifier);
            }
        });
    }

    /// Lets the summaries of a session start before the pause after a failure is over.
    pub(crate) fn end_pause(&self, session: &SessionKey) {
        self.paused().remove(session);
    }

    fn paused(&self) -> MutexGuard<'_, HashSet<SessionKey>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resumes the unfinished summaries that the log of a session shows.
    pub(crate) fn resume(self: &Arc<Self>, session: &SessionKey, notifier: Arc<dyn Notifier>) {
        self.record_pending(session);
        self.start(session, notifier);
    }

    /// Records that the log of a session shows unfinished summaries.
    pub(crate) fn record_pending(&self, session: &SessionKey) {
        let fixed = self
            .estimates()
            .get(session)
            .map_or(DEFAULT_PROMPT, |estimate| estimate.fixed);
        self.record_size(session, fixed, Size::default(), true);
    }

    /// Summarises everything that may leave the conversation of a session.
    pub(crate) async fn compact(
        &self,
        session: &SessionKey,
        notifier: &dyn Notifier,
    ) -> CompactReport {
        self.run(session, SummaryExtent::Everything, notifier).await
    }

    /// Waits until no summary is running. After `grace`, running summaries end as soon as possible
    /// and are resumed after a restart. No new ones start afterwards.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        self.retiring.cancel();
        self.retries.close();
        self.retries.wait().await;
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                "interrupting summaries: the grace period is over; they are resumed later"
            );
        }
        self.closing.cancel();
        self.tasks.wait().await;
        self.calibrator.save().await;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until no summary is running.
    pub(crate) async fn idle(&self) {
        // A tracker never finishes waiting while it is open.
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    fn is_running(&self, session: &SessionKey) -> bool {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(session)
    }

    fn estimates(&self) -> MutexGuard<'_, HashMap<SessionKey, SessionEstimate>> {
        self.estimates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the consolidation state of a session.
    pub(crate) async fn lock_state(&self, session: &SessionKey) -> OwnedMutexGuard<()> {
        self.states.lock(session).await
    }

    /// Changes the consolidation state of a session, and appends entries before the change.
    /// `decide` may be called again if others write to the session.
    async fn change<T>(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        mut decide: impl FnMut(&SessionView, &mut Pending) -> (Vec<Entry>, T),
    ) -> Result<T, SessionError> {
        let _alone = self.lock_state(session).await;
        let mut tries = 0;
        loop {
            tries += 1;
            let view = self.sessions.read(session, from).await?;
            let before = Pending::of(&view);
            let mut pending = before.clone();
            let (mut entries, result) = decide(&view, &mut pending);
            if pending != before {
                entries.push(Entry::Metadata(pending.change()));
            }
            if entries.is_empty() {
                return Ok(result);
            }
            match self.sessions.append(session, view.head, entries).await {
                Err(SessionError::Moved { .. }) if tries < TRIES => {}
                appended => return appended.map(|_| result),
            }
        }
    }

    /// Returns what to summarise next, noted in the session. Messages that leave the running
    /// conversation come before those with consent, which take long, and which only a background
    /// task summarises.
    async fn next(
        &self,
        session: &SessionKey,
        aim: SummaryExtent,
    ) -> Result<NextChunk, SessionError> {
        // Chunks that were noted earlier are found without reading the conversation.
        match self.next_of(session, aim, STATE).await? {
            NextChunk::Nothing => {}
            noted => return Ok(noted),
        }
        let next = self.next_of(session, aim, ReadFrom::Cursor).await?;
        if matches!(next, NextChunk::AskFirst) {
            // The chunk is noted. Now its messages may leave the conversation.
            self.next_of(session, aim, STATE).await?;
            self.offered().remove(session);
            self.context.renew(session);
        }
        Ok(next)
    }

    async fn next_of(
        &self,
        session: &SessionKey,
        aim: SummaryExtent,
        from: ReadFrom,
    ) -> Result<NextChunk, SessionError> {
        let facts = match from {
            ReadFrom::Cursor => self.facts_tokens(session).await,
            _ => 0,
        };
        self.change(session, from, |view, pending| {
            let mut entries = Vec::new();
            pending.chunks.retain_mut(|chunk| {
                let is_over = chunk.update(view.cursor);
                if is_over && !chunk.summary.is_empty() {
                    entries.push(Entry::Metadata(state::summary_change(
                        &chunk.summary,
                        &now(),
                    )));
                }
                !is_over
            });
            for chunk in &mut pending.chunks {
                if chunk.consent == Consent::Awaited && !chunk.left {
                    chunk.left = true;
                    let upto = Seq(chunk.upto);
                    entries.push(Entry::Consolidated { upto });
                }
            }
            let noted = pending.first(Consent::NotNeeded).cloned();
            if noted.is_some() || from != ReadFrom::Cursor {
                return (entries, NextChunk::of(noted));
            }
            let Some(upto) = self.choose(session, view, aim) else {
                let agreed = pending.first(Consent::Given).cloned();
                let agreed = agreed.filter(|_| aim == SummaryExtent::Due);
                return (entries, NextChunk::of(agreed));
            };
            let mut chunk = state::Chunk::new(view.cursor, upto);
            let next = if self.needs_consent(session, view, &mut chunk, facts) {
                NextChunk::AskFirst
            } else {
                NextChunk::Chunk(Box::new(chunk.clone()))
            };
            pending.chunks.push(chunk);
            (entries, next)
        })
        .await
    }

    /// Returns the position before which messages leave.
    fn choose(&self, session: &SessionKey, view: &SessionView, aim: SummaryExtent) -> Option<Seq> {
        let fixed = self
            .estimates()
            .get(session)
            .map_or(DEFAULT_PROMPT, |estimate| estimate.fixed);
        let size = size(view);
        let room = self.room(session, fixed);
        let kept_messages = self.settings.kept_messages();
        let down_to_half = boundary::Removal {
            tokens: size.tokens.saturating_sub(room / 2).max(1),
            kept_messages,
        };
        if view.is_partial() {
            return boundary::boundary(view, down_to_half)
                .map(|(upto, _)| upto)
                .or_else(|| boundary::backlog(view));
        }
        let everything = boundary::Removal {
            tokens: usize::MAX,
            kept_messages,
        };
        let too_many = self
            .settings
            .memory_window
            .is_some_and(|window| size.messages > window);
        if aim == SummaryExtent::Everything || too_many {
            return boundary::boundary(view, everything).map(|(upto, _)| upto);
        }
        if !self.is_full(session, fixed, size) {
            return None;
        }
        // A summary of very little costs a model call and frees no room.
        boundary::boundary(view, down_to_half)
            .filter(|(_, tokens)| *tokens >= room / 20)
            .map(|(upto, _)| upto)
    }
}

fn now() -> nanobot_types::Timestamp {
    chrono::Local::now().fixed_offset()
}
