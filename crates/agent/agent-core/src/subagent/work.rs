//! Works on tasks: one turn each, in a session of its own, a few at a time.

use std::sync::Arc;

use nanobot_context::{runtime_block, zone_label};
use nanobot_session::{MessageEntry, ReadFrom, Recorded, SessionError, TurnOutcome};
use nanobot_types::{ChatMessage, InboundMessage, Origin, SessionKey, ToolCall, TraceId};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::roster::{Roster, Stopped};
use super::{SubagentEnd, SubagentInfo, SubagentTask};
use crate::agent::NoSteering;
use crate::engine::{ResultFiles, TurnFacts};
use crate::evidence::TurnSteps;
use crate::{Agent, AgentError, AgentParts, AgentSettings, Observer, Signal, TurnRequest};

/// How subagents work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubagentSettings {
    /// How many work at the same time; at least 1.
    pub max_concurrent: usize,
    /// How many may be at work and waiting, all sessions together.
    pub max_unfinished: usize,
    /// How many tasks in a row may come out of results of others, without a word of a person.
    pub longest_chain: u32,
}

impl Default for SubagentSettings {
    /// 4 at a time, 64 in all, chains of 5.
    fn default() -> Self {
        Self {
            max_concurrent: 4,
            max_unfinished: 64,
            longest_chain: 5,
        }
    }
}

/// The subagents of an assistant: works on their tasks, and knows who is at work.
#[derive(Debug)]
pub struct Subagents {
    parts: AgentParts,
    agent: AgentSettings,
    settings: SubagentSettings,
    seats: Semaphore,
    pub(super) roster: Arc<Roster>,
}

impl Subagents {
    /// Subagents made of `parts`, whose tools and prompt are theirs and not the assistant's; the
    /// sessions are the same. `agent` says how their turns run.
    #[must_use]
    pub fn new(parts: AgentParts, agent: AgentSettings, settings: SubagentSettings) -> Self {
        let seats = Semaphore::new(settings.max_concurrent.clamp(1, Semaphore::MAX_PERMITS));
        Self {
            parts,
            agent,
            settings,
            seats,
            roster: Arc::default(),
        }
    }

    /// How they work.
    #[must_use]
    pub fn settings(&self) -> &SubagentSettings {
        &self.settings
    }

    /// Those that a session asked for and that are not done with, in the order in which they came.
    #[must_use]
    pub fn of_session(&self, session: &SessionKey) -> Vec<SubagentInfo> {
        self.roster.list(Some(session))
    }

    /// All that are not done with, in the order in which they came.
    #[must_use]
    pub fn all(&self) -> Vec<SubagentInfo> {
        self.roster.list(None)
    }

    /// Stops all that a session asked for; how many. Their ends are recorded, and the session that
    /// goes on finds a note of each.
    pub fn stop_session(&self, session: &SessionKey) -> usize {
        self.roster
            .stop(Stopped::Told, |_, parent| parent == session)
    }

    /// The same for a session that begins anew: nothing of it reaches the new conversation.
    pub fn abandon_session(&self, session: &SessionKey) -> usize {
        self.roster
            .stop(Stopped::Untold, |_, parent| parent == session)
    }

    /// Stops one that a session asked for. Whether there was one to stop.
    pub fn stop(&self, session: &SessionKey, id: &str) -> bool {
        self.roster.stop(Stopped::Told, |known, parent| {
            known == id && parent == session
        }) > 0
    }

    /// Waits until every subagent that a session asked for is done with: its work has ended, and
    /// its result was answered in that session. At once when there is none. Cancel-safe.
    pub async fn finished(&self, session: &SessionKey) {
        let mut changes = self.roster.watch();
        while !self.roster.list(Some(session)).is_empty() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// How a subagent ended, as its session has it; `None` while it has not ended.
    ///
    /// # Errors
    /// The store's.
    pub async fn end_of(&self, task: &SubagentTask) -> Result<Option<SubagentEnd>, SessionError> {
        let Some(journal_id) = task.message().journal_id() else {
            return Ok(None);
        };
        let view = self
            .parts
            .sessions
            .read(&task.session(), ReadFrom::Cursor)
            .await?;
        Ok(match view.recorded(&journal_id) {
            Recorded::Ended(end) => Some(match end {
                Some(end) => SubagentEnd {
                    outcome: end.outcome,
                    text: end.visible,
                },
                None => SubagentEnd {
                    outcome: TurnOutcome::Replied,
                    text: None,
                },
            }),
            Recorded::New | Recorded::Open => None,
        })
    }

    /// Waits for the end of a subagent. Cancel-safe.
    pub(super) async fn wait_for_end(
        &self,
        task: &SubagentTask,
    ) -> Result<SubagentEnd, SessionError> {
        // Watched before it is looked for, so that no end comes in between.
        let mut changes = self.roster.watch();
        loop {
            if let Some(end) = self.end_of(task).await? {
                return Ok(end);
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The message that brings a result to the session that asked for it. One that is too long for a
    /// prompt is kept whole in a file, as results of tools are.
    pub(crate) async fn result(&self, task: &SubagentTask, end: SubagentEnd) -> InboundMessage {
        let files = ResultFiles {
            folder: self.agent.results_folder.clone(),
        };
        let limit = self.agent.options.max_result_chars;
        let text = match end.text {
            Some(text) => Some(
                files
                    .shorten(
                        &ToolCall::new(task.id.as_str(), "subagent", ""),
                        text,
                        limit,
                    )
                    .await,
            ),
            None => None,
        };
        task.result(&SubagentEnd { text, ..end })
    }

    /// The message of a subagent's result was settled.
    pub(crate) fn answered(&self, id: &str) {
        self.roster.leave(id);
    }

    /// Its result is on the way to the session that asked for it.
    pub(crate) fn report(&self, task: &SubagentTask) {
        self.roster.report(task);
    }

    /// Its task could not be finished now.
    pub(crate) fn rest(&self, task: &SubagentTask) {
        self.roster.rest(&task.id);
    }

    /// A task was handed out: the subagent waits for its turn from now on.
    pub(crate) fn enter(&self, task: &SubagentTask) -> CancellationToken {
        self.roster.wait(task)
    }

    /// Waits until there is room for one more at work, in the order of asking. `None` when
    /// `closing` fires first; no seat when `stopped`, which is from [`Subagents::enter`], does.
    pub(crate) async fn seat(
        &self,
        stopped: &CancellationToken,
        closing: &CancellationToken,
    ) -> Option<Option<SemaphorePermit<'_>>> {
        tokio::select! {
            biased;
            () = closing.cancelled() => None,
            () = stopped.cancelled() => Some(None),
            seat = self.seats.acquire() => Some(seat.ok()),
        }
    }

    /// Works on a task to its end and records the end. Goes on where an earlier run was
    /// interrupted, and only reports an end that is recorded. `interrupt` ends what runs without an
    /// end.
    ///
    /// # Errors
    /// As [`Agent::run_turn`]; the same task goes on later.
    pub(crate) async fn work(
        &self,
        task: &SubagentTask,
        interrupt: &CancellationToken,
        steps: TurnSteps,
    ) -> Result<SubagentEnd, AgentError> {
        let cancel = self.roster.begin(&task.id, interrupt);
        let agent = self.agent(task);
        let (trace, entry) = opening(task);
        let request = TurnRequest {
            facts: facts(task),
            entry,
            trace,
            observer: Arc::new(LastTool {
                roster: self.roster.clone(),
                id: task.id.clone(),
            }),
            cancel,
            interrupt: interrupt.clone(),
            steering: &mut NoSteering,
        };
        Ok(agent.run_turn_noting(request, steps).await?.into())
    }

    /// Ends a task that is not worked on any further. An end that is recorded stays.
    pub(crate) async fn conclude(
        &self,
        task: &SubagentTask,
        outcome: TurnOutcome,
        text: Option<String>,
    ) -> Result<SubagentEnd, AgentError> {
        let (trace, entry) = opening(task);
        Ok(self
            .agent(task)
            .conclude(&facts(task), entry, trace, outcome, text)
            .await?
            .into())
    }

    /// Whether the result of a task has to be brought to the session that asked for it.
    pub(crate) fn is_awaited(&self, task: &SubagentTask) -> bool {
        !task.wait && self.roster.stopped(&task.id) != Some(Stopped::Untold)
    }

    fn agent(&self, task: &SubagentTask) -> Agent {
        let mut settings = self.agent.clone();
        settings.options.temperature = task.temperature;
        // What it finds out is remembered by who asked for it.
        settings.consolidation.enabled = false;
        settings.calibration_file = None;
        Agent::new(self.parts.clone(), settings)
    }
}

/// The message that begins the turn of a task, and the turn's name: the same after a restart.
fn opening(task: &SubagentTask) -> (TraceId, MessageEntry) {
    let inbound = task.message().journal_id();
    let trace = TraceId::from(inbound.as_ref().map_or(task.id.as_str(), |id| id.as_str()));
    let entry = MessageEntry {
        inbound,
        runtime: Some(runtime_block(
            &task.asked_at,
            &zone_label(&task.asked_at),
            None,
        )),
        at: task.asked_at,
        ..MessageEntry::new(ChatMessage::user(task.task.as_str()))
    };
    (trace, entry)
}

fn facts(task: &SubagentTask) -> TurnFacts {
    TurnFacts {
        session: task.session(),
        channel: task.channel.clone(),
        chat_id: task.chat_id.clone(),
        message_id: None,
        sender: None,
        chat: None,
        delivery: task.delivery.clone(),
        metadata: task.metadata.clone(),
        origin: Origin::Subagent {
            id: task.id.clone(),
        },
    }
}

/// Remembers which tools a subagent called last; whatever else it does, nobody watches.
struct LastTool {
    roster: Arc<Roster>,
    id: String,
}

impl Observer for LastTool {
    fn signal(&self, signal: Signal) {
        if let Signal::ToolHint(hint) = signal {
            self.roster.calls(&self.id, hint);
        }
    }
}
