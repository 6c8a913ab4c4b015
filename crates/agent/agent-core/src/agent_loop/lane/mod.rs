//! The lane of one session: its messages in order, its running turn, its steering.
//!
//! Decision: a message that cannot be handled now stays in the lane until its backoff is over, and
//! so do all messages after it. No later message can therefore overtake it, whenever the fault
//! clears.

pub(super) mod handle;
pub(super) mod notices;
mod steering;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use nanobot_bus::{BusError, REDELIVERY_DELAY, SettleOutcome};
use nanobot_session::TurnOutcome;
use nanobot_types::{
    DeliveryWish, InboundMessage, NoticeKind, OutboundKey, OutboundKind, OutboundMessage,
    OutboundSlot, SessionKey, SessionKind, chain,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::handle::{LaneHandle, LaneState, Queued};
use self::notices::{BusNotifier, BusObserver};
use self::steering::{LaneSteering, entry_of, facts_of};
use super::commands::{Command, CommandReply, CommandTiming, Parsed};
use super::shared::LoopState;
use crate::agent::RetryInput;
use crate::subagent::{is_note, reported_by};
use crate::{AgentError, TurnReport, TurnRequest, UndoReport};

/// Maximum number of times that the backoff doubles.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

/// The result of handling a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handled {
    /// The message is settled, or the ledger redelivers it at the next start.
    Done,
    /// The message could not be recorded; that does not count as an attempt.
    Blocked,
    /// The attempt failed and counts.
    Failed,
}

/// The task of one session.
pub(super) struct Lane {
    shared: Arc<LoopState>,
    session: SessionKey,
    queue: mpsc::Receiver<Queued>,
    state: Arc<LaneState>,
    /// Messages taken from the queue but not handled yet.
    next: VecDeque<Queued>,
    /// Messages steered into the running turn.
    steered: Vec<Queued>,
    /// Number of failures since handling last succeeded.
    failures: u32,
}

impl Lane {
    /// Creates a lane and its handle.
    pub(super) fn open(shared: Arc<LoopState>, session: SessionKey) -> (LaneHandle, Self) {
        let (sender, queue) = mpsc::channel(shared.settings.lane_bound.max(1));
        let state = Arc::new(LaneState::default());
        let handle = LaneHandle::new(sender, state.clone());
        let lane = Self {
            shared,
            session,
            queue,
            state,
            next: VecDeque::new(),
            steered: Vec::new(),
            failures: 0,
        };
        (handle, lane)
    }

    /// Handles messages until none are left.
    pub(super) async fn run(mut self) {
        while let Some(mut queued) = self.take().await {
            let token = self.state.begin(&self.shared.abort);
            let handled = AssertUnwindSafe(self.handle(&mut queued, token.clone()))
                .catch_unwind()
                .await;
            let handled = handled.unwrap_or_else(|_panic| {
                tracing::error!(session = %self.session, "handling a message panicked");
                Handled::Failed
            });
            self.shared.attempt_over(&queued.delivery.message);
            match handled {
                Handled::Done => {
                    self.failures = 0;
                    self.shared.note_settled(&queued.delivery.message);
                    self.steered
                        .drain(..)
                        .for_each(|steered| self.shared.note_settled(&steered.delivery.message));
                }
                Handled::Blocked => self.hold_back(queued, &token).await,
                Handled::Failed => {
                    self.shared.count_failure(&queued.delivery).await;
                    queued.attempt = queued.attempt.saturating_add(1);
                    queued.begun = false;
                    self.hold_back(queued, &token).await;
                }
            }
            self.state.busy.store(0, Ordering::SeqCst);
        }
    }

    /// Keeps a message that could not be handled at the front of the lane for another attempt.
    /// Waits with exponential backoff, because a turn that fails late has already called the model.
    async fn hold_back(&mut self, queued: Queued, stopped: &CancellationToken) {
        let first = if queued.begun {
            self.shared.settings.redelivery_delay
        } else {
            REDELIVERY_DELAY
        };
        let pause = first * (1 << self.failures.min(MAX_BACKOFF_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        for steered in self.steered.drain(..).rev() {
            self.next.push_front(steered);
        }
        let rested = async {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        };
        let closes = self
            .shared
            .closing
            .run_until_cancelled(rested)
            .await
            .is_none();
        if closes && queued.begun {
            // The fault may outlast several restarts, which must not use up attempts.
            settle(&[&queued], &SettleOutcome::PutOff(Duration::ZERO)).await;
        }
        self.next.push_front(queued);
    }

    async fn take(&mut self) -> Option<Queued> {
        if self.shared.closing.is_cancelled() {
            return None;
        }
        if let Some(queued) = self.next.pop_front() {
            return Some(queued);
        }
        if self.shared.retire(&self.session, &self.queue) {
            return None;
        }
        let closing = self.shared.closing.clone();
        closing
            .run_until_cancelled(self.queue.recv())
            .await
            .flatten()
    }

    async fn handle(&mut self, queued: &mut Queued, cancel: CancellationToken) -> Handled {
        let command = match self.shared.commands.read(&queued.delivery.message) {
            Parsed::Command { command, arguments } => Some((command.clone(), arguments.to_owned())),
            Parsed::Misused(_) | Parsed::Unknown(_) | Parsed::Text => None,
        };
        // A command that begins anew after stopping must not be discarded by its own stop.
        let follows_stop = command
            .as_ref()
            .is_some_and(|(command, _)| command.timing() == CommandTiming::InLaneAfterStop);
        let was_stopped = self.state.was_stopped(queued.number) && !follows_stop;
        let brings_result = reported_by(&queued.delivery.message).is_some();
        if was_stopped && !brings_result {
            let handled = settle(
                &[queued],
                &SettleOutcome::Discard("stopped before it began".to_owned()),
            )
            .await;
            self.shared.turn_ended(&queued.delivery.message);
            return handled;
        }
        let shared = self.shared.clone();
        match shared.count_crash(&queued.delivery).await {
            Ok(crashes) => queued.attempt = queued.attempt.saturating_add(crashes),
            Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => return Handled::Done,
            Err(error) => return self.failed(queued, &error.into()).await,
        }
        if shared
            .exceeded_attempts(&queued.delivery.message, queued.attempt)
            .await
        {
            return self.give_up(queued).await;
        }
        let Some(_admitted) = shared.admit(&queued.delivery.message, &cancel).await else {
            return Handled::Done;
        };
        if !queued.begun {
            match shared.begin(&queued.delivery).await {
                Ok(()) => queued.begun = true,
                // A person settled it meanwhile.
                Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => return Handled::Done,
                Err(error) => return self.failed(queued, &error.into()).await,
            }
        }
        match command {
            // A subagent's result is recorded even if a person stopped the session.
            None if is_note(&queued.delivery.message) || was_stopped => {
                self.record_only(queued).await
            }
            Some((command, arguments)) => {
                self.handle_command(&*command, &arguments, queued, cancel)
                    .await
            }
            None => {
                self.shared
                    .agent
                    .set_delivery(&mut queued.delivery.message)
                    .await;
                self.turn(queued, cancel, None).await
            }
        }
    }

    /// Runs a turn for a message. A retry sends an earlier message again, in the name of this one.
    async fn turn(
        &mut self,
        queued: &Queued,
        cancel: CancellationToken,
        retry: Option<RetryInput>,
    ) -> Handled {
        let shared = self.shared.clone();
        let message = &queued.delivery.message;
        let replaces = retry.as_ref().and_then(|retry| retry.replaces);
        let entry = match retry {
            Some(RetryInput { text, media, .. }) => {
                let again = InboundMessage {
                    content: text,
                    media,
                    ..message.clone()
                };
                entry_of(&shared, &again).await
            }
            None => entry_of(&shared, message).await,
        };
        let mut steering = LaneSteering {
            shared: &shared,
            commands: &shared.commands,
            queue: &mut self.queue,
            state: &self.state,
            taken: &mut self.steered,
            next: &mut self.next,
        };
        let request = TurnRequest {
            facts: facts_of(message, &self.session),
            entry,
            trace: message.turn_id(),
            observer: Arc::new(BusObserver {
                shared: shared.clone(),
                message: message.clone(),
            }),
            cancel,
            interrupt: shared.abort.clone(),
            steering: &mut steering,
        };
        match shared
            .agent
            .run_turn_noting(request, shared.steps_of(message), replaces)
            .await
        {
            Ok(report) => {
                let handled = self.publish(queued, report).await;
                self.published(message);
                handled
            }
            // The ledger redelivers the message, and the turn resumes from its journal.
            Err(AgentError::Interrupted) => Handled::Done,
            Err(error) => self.failed(queued, &error).await,
        }
    }

    /// Records a message without calling a model; the next turn sees it.
    async fn record_only(&self, queued: &Queued) -> Handled {
        let message = &queued.delivery.message;
        let (facts, entry) = (
            facts_of(message, &self.session),
            entry_of(&self.shared, message).await,
        );
        let recorded = self
            .shared
            .agent
            .conclude(&facts, entry, message.turn_id(), TurnOutcome::Stopped, None)
            .await;
        match recorded {
            Ok(_) => {
                let handled = settle(&[queued], &SettleOutcome::Ack).await;
                self.shared.turn_ended(message);
                handled
            }
            Err(error) => self.failed(queued, &error).await,
        }
    }

    /// Runs a command of the lane. Its journal may fail like that of a turn.
    async fn handle_command(
        &mut self,
        command: &dyn Command,
        arguments: &str,
        queued: &Queued,
        cancel: CancellationToken,
    ) -> Handled {
        let delivery = &queued.delivery;
        let done = self
            .shared
            .run_command(
                command,
                arguments,
                &self.session,
                &delivery.message,
                &cancel,
            )
            .await;
        match done {
            Ok(CommandReply {
                retry: Some(retry), ..
            }) => {
                let undone = retry.undone.as_ref();
                if let Some(remaining) = undone.and_then(UndoReport::remaining) {
                    self.shared.notice(&delivery.message, &remaining);
                }
                self.turn(queued, cancel, Some(retry)).await
            }
            Ok(reply) => match self.shared.reply(delivery, reply).await {
                Ok(()) => {
                    self.shared.turn_ended(&delivery.message);
                    // `/new` may have left a conversation to summarise.
                    self.published(&delivery.message);
                    Handled::Done
                }
                Err(error) => self.failed(queued, &error.into()).await,
            },
            // The ledger redelivers the command.
            Err(AgentError::Interrupted) => Handled::Done,
            Err(error) => self.failed(queued, &error).await,
        }
    }

    /// Starts background summarisation after a published turn.
    fn published(&self, message: &InboundMessage) {
        let notifier = BusNotifier {
            shared: self.shared.clone(),
            message: message.clone(),
        };
        self.shared
            .agent
            .turn_published(&self.session, Arc::new(notifier));
    }

    /// Publishes the visible end of a turn, then settles the messages it answered.
    async fn publish(&self, queued: &Queued, report: TurnReport) -> Handled {
        let message = &queued.delivery.message;
        let is_read = DeliveryWish::of(message) == DeliveryWish::Send;
        if report.ended == TurnOutcome::Suppressed
            && let Some(stream) = report.stream.clone()
            && is_read
        {
            let key = OutboundKey::new(report.trace.clone(), OutboundSlot::Reply);
            let kind = OutboundKind::Withdrawn { stream };
            self.shared.bus.offer(OutboundMessage::in_reply_to(
                message,
                key,
                kind,
                String::new(),
            ));
        }
        let visible = report.visible.filter(|_| is_read);
        let text = match visible {
            Some(text) if self.session.kind() == SessionKind::Heartbeat => {
                match self.filter_heartbeat(message, text, report.ended).await {
                    Some(text) => text,
                    // The program is shutting down; the ledger redelivers the message.
                    None => return Handled::Done,
                }
            }
            visible => visible,
        };
        if let Some(text) = text {
            let key = OutboundKey::new(report.trace, OutboundSlot::Reply);
            let kind = match report.ended {
                TurnOutcome::Failed | TurnOutcome::Limited => OutboundKind::Notice,
                TurnOutcome::Replied | TurnOutcome::Suppressed | TurnOutcome::Stopped => {
                    OutboundKind::Final
                }
            };
            let mut reply = OutboundMessage::in_reply_to(message, key, kind, text);
            reply.completes = report.stream;
            if let Err(error) = self.shared.bus.publish_outbound(reply).await {
                tracing::error!(%error, session = %self.session, "could not store a reply; it is in the session log and is retried");
                return Handled::Blocked;
            }
        }
        let answered: Vec<&Queued> = std::iter::once(queued).chain(&self.steered).collect();
        let handled = settle(&answered, &SettleOutcome::Ack).await;
        answered
            .iter()
            .for_each(|queued| self.shared.turn_ended(&queued.delivery.message));
        handled
    }

    /// Returns the part of a heartbeat's reply to send, or `None` if the shutdown interrupted the
    /// decision. A failed heartbeat is only logged: no one waits for the reply, and the next
    /// heartbeat tries again.
    async fn filter_heartbeat(
        &self,
        message: &InboundMessage,
        answer: String,
        ended: TurnOutcome,
    ) -> Option<Option<String>> {
        if matches!(ended, TurnOutcome::Failed | TurnOutcome::Limited) {
            tracing::warn!(answer, "a heartbeat turn failed");
            return Some(None);
        }
        let Some(heartbeat_filter) = &self.shared.heartbeat_filter else {
            return Some(Some(answer));
        };
        let text = self
            .shared
            .abort
            .run_until_cancelled(heartbeat_filter.filter(&message.content, &answer))
            .await?;
        Some(text)
    }

    /// Handles a failure of the journal: notifies the person once, and the message is retried
    /// later. A full or broken disk may stay so for long, so a transient failure does not count as
    /// an attempt.
    async fn failed(&self, queued: &Queued, error: &AgentError) -> Handled {
        let why = chain(error);
        tracing::error!(error = %why, session = %self.session, "could not record a turn");
        let message = &queued.delivery.message;
        let text = format!(
            "I cannot record our conversation right now ({why}). I keep your message and try again."
        );
        let key = OutboundKey::new(
            message.turn_id(),
            OutboundSlot::Notice(NoticeKind::Unrecorded),
        );
        // The ledger accepts a key once, so the person gets this notice once, however often the
        // message is retried.
        let notice = OutboundMessage::in_reply_to(message, key, OutboundKind::Notice, text.clone());
        if self.shared.bus.publish_outbound(notice).await.is_err() && self.failures == 0 {
            self.shared.notice(message, &text);
        }
        if error.is_transient() {
            Handled::Blocked
        } else {
            Handled::Failed
        }
    }

    async fn give_up(&self, queued: &Queued) -> Handled {
        let text = format!(
            "I tried {} times to handle this message and failed each time, so I put it aside. The log says why.",
            self.shared.settings.max_attempts
        );
        let message = &queued.delivery.message;
        let key = OutboundKey::new(message.turn_id(), OutboundSlot::Reply);
        let reply = OutboundMessage::in_reply_to(message, key, OutboundKind::Notice, text);
        if let Err(error) = self.shared.bus.publish_outbound(reply).await {
            tracing::error!(%error, session = %self.session, "could not store a notice");
        }
        let handled = settle(
            &[queued],
            &SettleOutcome::Fail("handling it failed repeatedly".to_owned()),
        )
        .await;
        self.shared.turn_ended(message);
        handled
    }
}

/// Settles several messages with the same outcome. A message that cannot be settled is redelivered,
/// and its journal then shows that it was handled.
async fn settle(messages: &[&Queued], outcome: &SettleOutcome) -> Handled {
    // Settle them together, so that a ledger that syncs does so once for all.
    let settled = join_all(
        messages
            .iter()
            .map(|queued| queued.delivery.settle(outcome.clone())),
    )
    .await;
    for error in settled.into_iter().filter_map(Result::err) {
        tracing::error!(%error, "could not settle a message; it is redelivered");
    }
    Handled::Done
}
