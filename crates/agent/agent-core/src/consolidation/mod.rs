//! Keeps conversations within the model's window: what is old is summarised into memory.
//!
//! Decision: a conversation is summarised after a turn and beside the next one, in a task that no
//! turn waits for. A summary is flushed to memory before the cursor moves, and everything that is
//! about to happen is noted in the session first, so that a crash loses nothing and repeats
//! nothing. The model is asked at most three times for a chunk, once after each turn; then the
//! messages themselves go into the history, so that this ends by itself whatever the model does.
//!
//! Messages never leave the log. What a request cannot hold meanwhile is left out of that request
//! by the engine.

mod ask;
mod choose;
mod pieces;
mod report;
mod settings;
mod state;
mod summarise;
mod tell;
mod work;

use std::collections::{HashMap, HashSet};
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

pub use report::CompactReport;
pub use settings::ConsolidationSettings;
pub use tell::{Teller, Untold};

pub(crate) use choose::{Size, old_messages, size};
pub(crate) use state::{last_summary, left_behind, waits, waits_in};

use self::state::Pending;
use crate::locks::KeyedLocks;

/// Summaries that are made at the same time, over all sessions.
const AT_ONCE: usize = 2;
/// Sessions whose size is remembered.
const REMEMBERED: usize = 1024;
/// How often an append is tried when others write to the same session.
const TRIES: u32 = 8;
/// Reads what is known of a session, and none of its messages.
const STATE: ReadFrom = ReadFrom::Seq(Seq(u64::MAX));
/// Tokens of system prompt and tools of a session that has had no turn yet.
const USUAL_PROMPT: usize = 2_500;
/// Of the room for a conversation, the part from which on it is summarised, in tenths.
const FULL: usize = 8;

/// What is known of a session since its last turn.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Tokens of system prompt and tools.
    fixed: usize,
    /// There is something to summarise.
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
    permits: Semaphore,
    running: Mutex<HashSet<SessionKey>>,
    known: Mutex<HashMap<SessionKey, Known>>,
    /// Held while what a session knows of its consolidation is changed.
    states: KeyedLocks,
    /// Models that do not take a forced choice of a tool.
    unforced: Mutex<HashSet<ModelId>>,
}

/// What a consolidator works with.
pub(crate) struct ConsolidatorParts {
    pub(crate) settings: ConsolidationSettings,
    pub(crate) router: Arc<ProviderRouter>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) context: Arc<ContextBuilder>,
    pub(crate) calibrator: Arc<Calibrator>,
    pub(crate) events: EventFeed,
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// What has to leave.
    Due,
    /// Everything that may leave.
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
            permits: Semaphore::new(AT_ONCE),
            running: Mutex::default(),
            known: Mutex::default(),
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

    /// The model that is asked first.
    pub(crate) fn model(&self) -> ModelId {
        self.router
            .candidates()
            .next()
            .map_or_else(|| ModelId::from(""), |candidate| candidate.model.clone())
    }

    /// Tokens, as they are estimated, that a request of a session may take; `usize::MAX` for no
    /// limit.
    fn budget(&self, session: &SessionKey) -> usize {
        let model = self.model();
        let limit = self.calibrator.limit(&model).unwrap_or(usize::MAX);
        let budget = match self.settings.budget() {
            0 => limit,
            budget => budget.min(limit),
        };
        match budget {
            usize::MAX => usize::MAX,
            budget => (budget as f64 / self.calibrator.factor(&model, session)) as usize,
        }
    }

    /// Of the budget, what the conversation may take.
    fn room(&self, session: &SessionKey, fixed: usize) -> usize {
        match self.budget(session) {
            usize::MAX => usize::MAX,
            budget => budget.saturating_sub(fixed).max(budget / 4),
        }
    }

    /// Takes note of a session behind a turn: what its prompt and its conversation take, and
    /// whether something waits in it already.
    pub(crate) fn note(&self, session: &SessionKey, fixed: usize, size: Size, waits: bool) {
        let due = self.settings.enabled && (waits || self.is_full(session, fixed, size));
        let mut known = self.known();
        if known.len() >= REMEMBERED && !known.contains_key(session) {
            known.retain(|_, known| known.due);
        }
        known.insert(session.clone(), Known { fixed, due });
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

    /// Whether the conversation of a session does not fit any more and summaries of it have
    /// failed, so that the messages themselves have to be put into the history.
    pub(crate) fn must_make_room(&self, view: &SessionView, session: &SessionKey) -> bool {
        let fixed = self
            .known()
            .get(session)
            .map_or(USUAL_PROMPT, |known| known.fixed);
        let failed = Pending::of(view)
            .chunks
            .iter()
            .any(|chunk| chunk.failures > 0);
        failed
            && self.settings.enabled
            && size(view).tokens > self.room(session, fixed)
            && !self.is_running(session)
    }

    /// Summarises a session in the background if there is something to summarise.
    pub(crate) fn start(self: &Arc<Self>, session: &SessionKey, teller: Arc<dyn Teller>) {
        let is_due = self
            .known()
            .get_mut(session)
            .is_some_and(|known| std::mem::take(&mut known.due));
        if !is_due || self.tasks.is_closed() {
            return;
        }
        let (this, session) = (Arc::clone(self), session.clone());
        self.tasks.spawn(async move {
            let report = this.run(&session, Aim::Due, &*teller).await;
            tracing::info!(%session, messages = report.messages, trouble = report.trouble, "a conversation was summarised");
            this.calibrator.save().await;
        });
    }

    /// Goes on with what waits in a session according to its log.
    pub(crate) fn resume(self: &Arc<Self>, session: &SessionKey, teller: Arc<dyn Teller>) {
        if !self.settings.enabled {
            return;
        }
        let fixed = self
            .known()
            .get(session)
            .map_or(USUAL_PROMPT, |known| known.fixed);
        self.note(session, fixed, Size::default(), true);
        self.start(session, teller);
    }

    /// Summarises everything of a session that may leave its conversation.
    pub(crate) async fn compact(&self, session: &SessionKey, teller: &dyn Teller) -> CompactReport {
        self.run(session, Aim::Everything, teller).await
    }

    /// Waits until nothing is being summarised any more; after `grace`, what still runs ends as
    /// soon as it can, and goes on after a restart. Nothing is begun afterwards.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                "summaries are interrupted because the grace is over; they are made again later"
            );
        }
        self.closing.cancel();
        self.tasks.wait().await;
        self.calibrator.save().await;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until nothing is being summarised.
    pub(crate) async fn idle(&self) {
        // A tracker that is not closed never counts as done.
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

    fn known(&self) -> MutexGuard<'_, HashMap<SessionKey, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from changing what a session knows of its consolidation.
    pub(crate) async fn hold(&self, session: &SessionKey) -> OwnedMutexGuard<()> {
        self.states.lock(session).await
    }

    /// Changes what a session knows of its consolidation, together with entries to append before
    /// that. `decide` may be asked again when others write to the session.
    async fn change<T>(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        mut decide: impl FnMut(&SessionView, &mut Pending) -> (Vec<Entry>, T),
    ) -> Result<T, SessionError> {
        let _alone = self.hold(session).await;
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

    /// What there is to summarise, noted in the session, with what was begun before first.
    async fn next(
        &self,
        session: &SessionKey,
        aim: Aim,
    ) -> Result<Option<state::Chunk>, SessionError> {
        // What was noted before is found without the conversation.
        match self.next_of(session, aim, STATE).await? {
            None => self.next_of(session, aim, ReadFrom::Cursor).await,
            noted => Ok(noted),
        }
    }

    async fn next_of(
        &self,
        session: &SessionKey,
        aim: Aim,
        from: ReadFrom,
    ) -> Result<Option<state::Chunk>, SessionError> {
        self.change(session, from, |view, pending| {
            let mut entries = Vec::new();
            for chunk in &mut pending.chunks {
                // Its reset did not come to be.
                chunk.left &= Seq(chunk.upto) <= view.cursor;
            }
            pending.chunks.retain(|chunk| {
                let is_over = !chunk.left && Seq(chunk.upto) <= view.cursor;
                if is_over && !chunk.summary.is_empty() {
                    entries.push(Entry::Metadata(state::summary_change(
                        &chunk.summary,
                        &now(),
                    )));
                }
                !is_over
            });
            if pending.chunks.is_empty()
                && from == ReadFrom::Cursor
                && let Some(upto) = self.choose(session, view, aim)
            {
                pending.chunks.push(state::Chunk::new(view.cursor, upto));
            }
            (entries, pending.chunks.first().cloned())
        })
        .await
    }

    fn choose(&self, session: &SessionKey, view: &SessionView, aim: Aim) -> Option<Seq> {
        if view.is_partial() {
            return choose::backlog(view);
        }
        let fixed = self
            .known()
            .get(session)
            .map_or(USUAL_PROMPT, |known| known.fixed);
        let size = size(view);
        let kept = self.settings.kept();
        let everything = choose::Need {
            tokens: usize::MAX,
            kept,
        };
        let too_many = self
            .settings
            .memory_window
            .is_some_and(|window| size.messages > window);
        if aim == Aim::Everything || too_many {
            return choose::boundary(view, everything).map(|(upto, _)| upto);
        }
        if !self.is_full(session, fixed, size) {
            return None;
        }
        let room = self.room(session, fixed);
        let need = choose::Need {
            tokens: size.tokens.saturating_sub(room / 2).max(1),
            kept,
        };
        // A summary of next to nothing costs a model call and frees no room.
        choose::boundary(view, need)
            .filter(|(_, tokens)| *tokens >= room / 20)
            .map(|(upto, _)| upto)
    }
}

fn now() -> nanobot_types::Timestamp {
    chrono::Local::now().fixed_offset()
}
