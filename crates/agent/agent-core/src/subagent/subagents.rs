//! Runs subagents: one turn per task, each in a session of its own, a few at a time.

use std::sync::Arc;

use nanobot_context::{runtime_block, zone_label};
use nanobot_session::{Entry, InboundStatus, MessageEntry, ReadFrom, SessionError, TurnOutcome};
use nanobot_types::{ChatMessage, InboundMessage, Origin, SessionKey, ToolCall, TraceId};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::roster::{Roster, StopMode};
use super::{SubagentEnd, SubagentInfo, SubagentTask};
use crate::agent::NoSteering;
use crate::engine::{
    ResultFiles, TurnFacts, copy_untrusted_mark, mark_untrusted, untrusted_origin,
};
use crate::evidence::TurnSteps;
use crate::{Agent, AgentError, AgentParts, AgentSettings, Observer, Signal, TurnRequest};

/// Limits of subagents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubagentSettings {
    /// Maximum number of subagents that work at the same time; at least 1.
    pub max_concurrent: usize,
    /// Maximum number of working and waiting subagents over all sessions.
    pub max_unfinished: usize,
    /// Maximum number of consecutive tasks started by results of other tasks, without a message
    /// from a person in between.
    pub max_chain_length: u32,
}

impl Default for SubagentSettings {
    /// 4 at a time, 64 in all, chains of 5.
    fn default() -> Self {
        Self {
            max_concurrent: 4,
            max_unfinished: 64,
            max_chain_length: 5,
        }
    }
}

/// The subagents of an assistant: runs their tasks and tracks the unfinished ones.
#[derive(Debug)]
pub struct Subagents {
    parts: AgentParts,
    agent: AgentSettings,
    settings: SubagentSettings,
    seats: Semaphore,
    pub(super) roster: Arc<Roster>,
}

impl Subagents {
    /// Creates subagents from `parts`. They have their own tools and prompt, not the assistant's,
    /// but share its sessions. `agent` configures their turns.
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

    /// Returns the limits.
    #[must_use]
    pub fn settings(&self) -> &SubagentSettings {
        &self.settings
    }

    /// Lists the unfinished subagents that a session started, in the order of arrival.
    #[must_use]
    pub fn of_session(&self, session: &SessionKey) -> Vec<SubagentInfo> {
        self.roster.list(Some(session))
    }

    /// Lists all unfinished subagents, in the order of arrival.
    #[must_use]
    pub fn all(&self) -> Vec<SubagentInfo> {
        self.roster.list(None)
    }

    /// Stops all subagents of a session and returns their number. Their ends are recorded, and the
    /// session, which continues, gets a note of each.
    pub fn stop_session(&self, session: &SessionKey) -> usize {
        self.roster
            .stop(StopMode::Told, |_, parent| parent == session)
    }

    /// Stops all subagents of a session that begins a new conversation: nothing of them reaches it.
    pub fn abandon_session(&self, session: &SessionKey) -> usize {
        self.roster
            .stop(StopMode::Untold, |_, parent| parent == session)
    }

    /// Stops one subagent of a session. Returns `true` if there was one to stop.
    pub fn stop(&self, session: &SessionKey, id: &str) -> bool {
        self.roster.stop(StopMode::Told, |known, parent| {
            known == id && parent == session
        }) > 0
    }

    /// Waits until every subagent of a session is finished: its work has ended, and its result was
    /// answered in that session. Returns at once if there is none. Cancel-safe.
    pub async fn finished(&self, session: &SessionKey) {
        let mut changes = self.roster.watch();
        while !self.roster.list(Some(session)).is_empty() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the end of a subagent as recorded in its session; `None` while it has not ended.
    ///
    /// # Errors
    /// Returns a [`SessionError`] if the session could not be read.
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
            InboundStatus::Ended(end) => Some(match end {
                Some(end) => SubagentEnd {
                    outcome: end.outcome,
                    text: end.visible,
                },
                None => SubagentEnd {
                    outcome: TurnOutcome::Replied,
                    text: None,
                },
            }),
            InboundStatus::New | InboundStatus::Open => None,
        })
    }

    /// Waits for the end of a subagent. Cancel-safe.
    pub(super) async fn wait_for_end(
        &self,
        task: &SubagentTask,
    ) -> Result<SubagentEnd, SessionError> {
        // Subscribe before checking, so that no end is missed in between.
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

    /// Returns the message that delivers a result to the parent session. A result that is too long
    /// for a prompt is written whole to a file, as results of tools are.
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
                    .await
                    .text,
            ),
            None => None,
        };
        let mut result = task.result(&SubagentEnd { text, ..end });
        if let Some(origin) = self.untrusted_text_of(task).await {
            mark_untrusted(&origin, &mut result.metadata);
        }
        result
    }

    /// Returns the origin of the text by strangers that a subagent read, if it did. If its session
    /// cannot be read, it may have.
    async fn untrusted_text_of(&self, task: &SubagentTask) -> Option<String> {
        let session = task.session();
        match self.parts.sessions.read(&session, ReadFrom::Cursor).await {
            Ok(view) => view.records.iter().find_map(|record| match &record.entry {
                Entry::Message(entry) => untrusted_origin(entry).map(str::to_owned),
                _ => None,
            }),
            Err(error) => {
                tracing::warn!(%error, %session, "the session of a subagent cannot be read");
                Some("a subagent".to_owned())
            }
        }
    }

    /// Removes a subagent whose result was settled.
    pub(crate) fn answered(&self, id: &str) {
        self.roster.remove(id);
    }

    /// Notes that the result of a task is on the way to the parent session.
    pub(crate) fn set_reporting(&self, task: &SubagentTask) {
        self.roster.set_reporting(task);
    }

    /// Notes that a task could not be finished now and is retried.
    pub(crate) fn set_waiting(&self, task: &SubagentTask) {
        self.roster.set_waiting(&task.id);
    }

    /// Enters a delivered task; the subagent waits for its turn from now on. The returned token
    /// fires when it is stopped.
    pub(crate) fn accept(&self, task: &SubagentTask) -> CancellationToken {
        self.roster.wait(task)
    }

    /// Waits for a free slot; waiters are served in order. Returns `None` if `closing` fires first,
    /// and `Some(None)` if `stopped` (from [`Subagents::accept`]) does.
    pub(crate) async fn acquire_slot(
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

    /// Runs a task to its end, or resumes it where an earlier run was interrupted. The end is
    /// recorded before it is returned. `interrupt` interrupts the turn without an end.
    ///
    /// # Errors
    /// See [`Agent::run_turn`]; the same task can be resumed later.
    pub(crate) async fn run_task(
        &self,
        task: &SubagentTask,
        interrupt: &CancellationToken,
        steps: TurnSteps,
    ) -> Result<SubagentEnd, AgentError> {
        let cancel = self.roster.begin(&task.id, interrupt);
        let agent = self.agent(task);
        let (trace, entry) = first_message(task);
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
        Ok(agent.run_turn_noting(request, steps, None).await?.into())
    }

    /// Ends a task without running it any further. An end that is already recorded stays.
    pub(crate) async fn conclude(
        &self,
        task: &SubagentTask,
        outcome: TurnOutcome,
        text: Option<String>,
    ) -> Result<SubagentEnd, AgentError> {
        let (trace, entry) = first_message(task);
        Ok(self
            .agent(task)
            .conclude(&facts(task), entry, trace, outcome, text)
            .await?
            .into())
    }

    /// Returns `true` if the result of a task must be delivered to the session that started it.
    pub(crate) fn is_awaited(&self, task: &SubagentTask) -> bool {
        !task.wait && self.roster.stopped(&task.id) != Some(StopMode::Untold)
    }

    fn agent(&self, task: &SubagentTask) -> Agent {
        let mut settings = self.agent.clone();
        settings.options.temperature = task.temperature;
        // The parent session remembers what the subagent found out.
        settings.consolidation.enabled = false;
        settings.calibration_file = None;
        Agent::new(self.parts.clone(), settings)
    }
}

/// Returns the message that begins the turn of a task, and the turn's id. Both are the same after a
/// restart.
fn first_message(task: &SubagentTask) -> (TraceId, MessageEntry) {
    let inbound = task.message().journal_id();
    let trace = TraceId::from(inbound.as_ref().map_or(task.id.as_str(), |id| id.as_str()));
    let mut entry = MessageEntry {
        inbound,
        runtime: Some(runtime_block(
            &task.asked_at,
            &zone_label(&task.asked_at),
            None,
        )),
        at: task.asked_at,
        ..MessageEntry::new(ChatMessage::user(task.task.as_str()))
    };
    copy_untrusted_mark(&task.metadata, &mut entry.extra);
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

/// Records the tools that a subagent called last. All its other signals are ignored.
struct LastTool {
    roster: Arc<Roster>,
    id: String,
}

impl Observer for LastTool {
    fn signal(&self, signal: Signal) {
        if let Signal::ToolHint(hint) = signal {
            self.roster.set_last_tool(&self.id, hint);
        }
    }
}
