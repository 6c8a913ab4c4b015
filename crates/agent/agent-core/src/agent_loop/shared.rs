//! State shared by the pump, the lanes and the commands of a loop.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::FutureExt as _;
use nanobot_bus::{Bus, BusError, Delivery, Ledger, SettleOutcome};
use nanobot_types::{
    Event, InboundMessage, NoticeKind, OutboundKey, OutboundKind, OutboundMessage, OutboundSlot,
    SessionKey,
};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::LoopSettings;
use super::commands::{Command, CommandContext, CommandReply, CommandTable};
use super::heartbeat_filter::HeartbeatFilter;
use super::lane::handle::{LaneHandle, Queued};
use crate::{Agent, AgentError, StepLog};

/// Maximum number of commands that run outside of lanes at the same time.
const MAX_COMMANDS: usize = 16;

/// State shared by the pump and its lanes.
#[derive(Debug)]
pub(super) struct LoopState {
    pub(super) agent: Arc<Agent>,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) commands: CommandTable,
    pub(super) heartbeat_filter: Option<Arc<dyn HeartbeatFilter>>,
    pub(super) settings: LoopSettings,
    /// Notes of the steps under way, as evidence after a crash.
    pub(super) evidence: Option<Arc<StepLog>>,
    pub(super) lanes: Mutex<HashMap<SessionKey, LaneHandle>>,
    pub(super) tasks: TaskTracker,
    /// Limits the commands that run outside of lanes.
    pub(super) command_permits: Arc<Semaphore>,
    /// Fires when lanes must not begin further messages; what they hold stays in the ledger.
    pub(super) closing: CancellationToken,
    /// Fires when running turns must end, after the grace period.
    pub(super) abort: CancellationToken,
    pub(super) started: Instant,
}

impl LoopState {
    /// Creates the state of a loop that has no lanes yet.
    pub(super) fn new(
        agent: Arc<Agent>,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        settings: LoopSettings,
        commands: CommandTable,
        heartbeat_filter: Option<Arc<dyn HeartbeatFilter>>,
    ) -> Self {
        Self {
            agent,
            bus,
            ledger,
            commands,
            heartbeat_filter,
            settings,
            evidence: None,
            lanes: Mutex::default(),
            tasks: TaskTracker::new(),
            command_permits: Arc::new(Semaphore::new(MAX_COMMANDS)),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            started: Instant::now(),
        }
    }

    /// Runs a command. If it panics, the reply says that it failed.
    ///
    /// # Errors
    /// Returns the command's error.
    pub(super) async fn run_command(
        &self,
        command: &dyn Command,
        arguments: &str,
        session: &SessionKey,
        message: &InboundMessage,
        cancel: &CancellationToken,
    ) -> Result<CommandReply, AgentError> {
        let context = CommandContext {
            message,
            session,
            arguments,
            cancel,
            shared: self,
        };
        let acted = AssertUnwindSafe(command.run(&context)).catch_unwind().await;
        acted.unwrap_or_else(|_| {
            tracing::error!(session = %session, command = command.info().name, "a command panicked");
            Ok(CommandReply::refusal(
                "That command failed. The log says why.",
            ))
        })
    }

    /// Publishes a reply that needs no turn, then settles the message. The reply's follow-up runs
    /// once both are durable.
    ///
    /// # Errors
    /// Returns a [`BusError`] if the reply was not stored; nothing is settled then.
    pub(super) async fn reply(
        &self,
        delivery: &Delivery<InboundMessage>,
        reply: CommandReply,
    ) -> Result<(), BusError> {
        let key = OutboundKey::new(delivery.message.turn_id(), OutboundSlot::Reply);
        let kind = match reply.is_refusal {
            true => OutboundKind::Notice,
            false => OutboundKind::Final,
        };
        let answer = OutboundMessage::in_reply_to(&delivery.message, key, kind, reply.text);
        self.bus.publish_outbound(answer).await?;
        match delivery.settle(SettleOutcome::Ack).await {
            Ok(()) => reply.then.into_iter().for_each(|then| then()),
            Err(error) => tracing::error!(%error, "could not settle an answered command"),
        }
        Ok(())
    }

    /// Returns `true` if a message used up its attempts. Every recorded step of its turn allows one
    /// more attempt, so that restarts do not use up the attempts of a turn that makes progress.
    pub(super) async fn exceeded_attempts(&self, message: &InboundMessage, attempt: u32) -> bool {
        let attempts = self.settings.max_attempts;
        if attempt <= attempts {
            return false;
        }
        let steps = match message.journal_id() {
            Some(id) => self.agent.steps_recorded(&message.session_key(), &id).await,
            None => 0,
        };
        attempt > attempts.saturating_add(steps)
    }

    /// Stops the turn of a session and its subagents, and discards its waiting messages. Returns
    /// the number of messages and subagents affected.
    pub(super) fn stop(&self, session: &SessionKey) -> usize {
        let subagents = self
            .agent
            .subagents()
            .map_or(0, |subagents| subagents.stop_session(session));
        self.stop_lane(session) + subagents
    }

    /// Stops a session as [`LoopState::stop`] does, and keeps results of its subagents out of its
    /// next conversation.
    pub(super) fn abandon(&self, session: &SessionKey) {
        if let Some(subagents) = self.agent.subagents() {
            subagents.abandon_session(session);
        }
        self.stop_lane(session);
    }

    fn stop_lane(&self, session: &SessionKey) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(session).map_or(0, LaneHandle::stop)
    }

    /// Notifies waiters that a message is settled.
    pub(super) fn turn_ended(&self, message: &InboundMessage) {
        self.note_settled(message);
        self.publish_turn_end(message, &message.session_key());
    }

    /// Notifies waiters of `session` that one of its messages is settled, and how many subagents
    /// are unfinished.
    pub(super) fn publish_turn_end(&self, message: &InboundMessage, session: &SessionKey) {
        let unfinished = self
            .agent
            .subagents()
            .map_or(0, |subagents| subagents.of_session(session).len());
        let kind = OutboundKind::TurnEnd {
            unfinished: u32::try_from(unfinished).unwrap_or(u32::MAX),
        };
        let key = OutboundKey::new(message.turn_id(), OutboundSlot::TurnEnd);
        self.bus.offer(OutboundMessage::in_reply_to(
            message,
            key,
            kind,
            String::new(),
        ));
        self.agent.events().send(Event::MessageSettled {
            session: session.clone(),
        });
    }

    /// Sends a best-effort notice to a chat.
    pub(super) fn notice(&self, message: &InboundMessage, text: &str) {
        let key = OutboundKey::new(message.turn_id(), OutboundSlot::Notice(NoticeKind::Waiting));
        self.bus.offer(OutboundMessage::in_reply_to(
            message,
            key,
            OutboundKind::Progress,
            text.to_owned(),
        ));
    }

    /// Returns the number of running and waiting messages over all lanes.
    pub(super) fn active_tasks(&self) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.values().map(LaneHandle::count).sum()
    }

    /// Removes a lane if its queue is empty and no refused message has yet to return.
    pub(super) fn retire(&self, session: &SessionKey, queue: &mpsc::Receiver<Queued>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let done = queue.is_empty() && !lanes.get(session).is_some_and(LaneHandle::awaits_more);
        if done {
            lanes.remove(session);
        }
        done
    }
}
