//! Takes messages from the bus and puts each where it belongs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nanobot_bus::{Bus, Delivery, Ledger, Settle};
use nanobot_types::{InboundMessage, OutboundKey, OutboundKind, OutboundMessage, SessionKey, TraceId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::LoopSettings;
use super::commands::{self, Command, Parsed, When};
use super::lane::{Lane, LaneHandle, Queued};
use super::pending;
use crate::{Agent, AgentError};

/// The place of an answer to a command, and of a notice, among the messages of its turn: behind
/// everything a turn can publish.
pub(super) const NOTICE_POSITION: u32 = u32::MAX;

/// How often the pause after a failed journal doubles.
const LONGEST_BACK_OFF: u32 = 6;

/// Routes messages of a bus to turns of an agent, and replies back.
#[derive(Debug)]
pub struct AgentLoop {
    shared: Arc<Shared>,
}

/// What the pump and its lanes share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) agent: Arc<Agent>,
    pub(super) bus: Arc<dyn Bus>,
    ledger: Arc<dyn Ledger>,
    pub(super) settings: LoopSettings,
    lanes: Mutex<HashMap<SessionKey, LaneHandle>>,
    /// How often the journals of sessions failed since they last worked.
    failures: Mutex<HashMap<SessionKey, u32>>,
    tasks: TaskTracker,
    /// Fires when lanes must begin no further message; what they hold stays in the ledger.
    pub(super) closing: CancellationToken,
    /// Fires when turns must end, a grace after intake stopped.
    pub(super) abort: CancellationToken,
    started: Instant,
}

impl AgentLoop {
    /// A loop between an agent and a bus; `ledger` is that bus's.
    #[must_use]
    pub fn new(agent: Arc<Agent>, bus: Arc<dyn Bus>, ledger: Arc<dyn Ledger>, settings: LoopSettings) -> Self {
        let shared = Shared {
            agent,
            bus,
            ledger,
            settings,
            lanes: Mutex::default(),
            failures: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            started: Instant::now(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Runs until `cancel` fires: then nothing new is taken, turns may go on for the grace, what
    /// still runs is stopped with its recorded steps kept, and every task is awaited.
    ///
    /// # Errors
    /// [`AgentError::Bus`] when the bus gives no subscription.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), AgentError> {
        let mut inbound = self.shared.bus.inbound().await?;
        loop {
            let delivery = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                next = inbound.next() => match next {
                    Some(delivery) => delivery,
                    None => break,
                },
            };
            Shared::route(&self.shared, delivery).await;
        }
        self.shared.closing.cancel();
        self.shared.tasks.close();
        let drained = tokio::time::timeout(self.shared.settings.grace, self.shared.tasks.wait()).await;
        if drained.is_err() {
            tracing::warn!("turns are stopped because the grace is over");
        }
        self.shared.abort.cancel();
        self.shared.tasks.wait().await;
        Ok(())
    }
}

impl Shared {
    async fn route(shared: &Arc<Self>, delivery: Delivery<InboundMessage>) {
        let session = delivery.message.session_key();
        match commands::parse(&delivery.message.content) {
            Parsed::Command(command) => {
                if matches!(command, Command::New) {
                    // The new conversation begins behind whatever still runs, so end that first.
                    shared.stop(&session);
                }
                match command.when() {
                    When::Now => shared.answer_now(command, &session, delivery).await,
                    When::InLane => Self::enqueue(shared, session, delivery).await,
                }
            }
            Parsed::Unknown(text) => {
                let answer = format!("There is no command {text}. /help lists the commands.");
                shared.answer(delivery, answer).await;
            }
            Parsed::Text => Self::enqueue(shared, session, delivery).await,
        }
    }

    async fn answer_now(&self, command: Command, session: &SessionKey, delivery: Delivery<InboundMessage>) {
        let answer = match command {
            Command::Stop => match self.stop(session) {
                0 => "No active task to stop.".to_owned(),
                count => format!("Stopped {count} task(s)."),
            },
            Command::Help => commands::help(),
            Command::Pending => pending::answer(&*self.ledger, &delivery.message).await,
            Command::Start => "Hi, I am nanobot. Write to me, or try /help.".to_owned(),
            Command::Status | Command::New | Command::Branch => self.status(session).await,
        };
        self.answer(delivery, answer).await;
    }

    /// Publishes an answer that needs no turn, then settles.
    pub(super) async fn answer(&self, delivery: Delivery<InboundMessage>, text: String) {
        let key = OutboundKey { turn: turn_of(&delivery.message), position: 0 };
        let reply = OutboundMessage::in_reply_to(&delivery.message, key, OutboundKind::Final, text);
        let published = self.bus.publish_outbound(reply).await;
        let settled = match published {
            Ok(_) => delivery.settle(Settle::Ack).await,
            Err(_) => delivery.settle(Settle::RetryIn(self.settings.full_pause)).await,
        };
        if let Err(error) = settled {
            tracing::error!(%error, "an answered command could not be settled");
        }
    }

    /// Puts a message into its lane; a lane that is full leaves it in the ledger.
    async fn enqueue(shared: &Arc<Self>, session: SessionKey, delivery: Delivery<InboundMessage>) {
        let refused = {
            let mut lanes = shared.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            let lane = lanes.entry(session.clone()).or_insert_with(|| {
                let (handle, lane) = Lane::open(shared.clone(), session.clone());
                shared.tasks.spawn(lane.run());
                handle
            });
            lane.offer(delivery).map(|delivery| (delivery, lane.first_refusal()))
        };
        let Some((delivery, first)) = refused else { return };
        if first {
            shared.notice(&delivery.message, "I am still at work here. Your further messages wait their turn.");
        }
        if let Err(error) = delivery.settle(Settle::PutOff(shared.settings.full_pause)).await {
            tracing::error!(%error, session = %session, "a message that waits could not be put off");
        }
    }

    /// Stops the turn of a session and discards what waits behind it; how many messages that is.
    fn stop(&self, session: &SessionKey) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(session).map_or(0, LaneHandle::stop)
    }

    /// How long to wait after a journal failed: longer each time, because a turn that fails late
    /// has asked the model already.
    pub(super) fn pause_after_failure(&self, session: &SessionKey) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(session.clone()).or_default();
        let pause = self.settings.full_pause * (1 << (*count).min(LONGEST_BACK_OFF));
        *count += 1;
        pause
    }

    /// A journal works again.
    pub(super) fn forget_failures(&self, session: &SessionKey) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    /// Tells a chat something that may be lost.
    pub(super) fn notice(&self, message: &InboundMessage, text: &str) {
        let key = OutboundKey { turn: turn_of(message), position: NOTICE_POSITION };
        self.bus.offer(OutboundMessage::in_reply_to(message, key, OutboundKind::Progress, text.to_owned()));
    }

    async fn status(&self, session: &SessionKey) -> String {
        let running = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).len();
        let minutes = self.started.elapsed().as_secs() / 60;
        let of_session = self.agent.describe(session).await;
        format!(
            "🐈 nanobot {}\n{of_session}\nActive sessions: {running}\nUptime: {minutes} min",
            env!("CARGO_PKG_VERSION")
        )
    }

    /// Removes a lane that has nothing left and awaits nothing.
    pub(super) fn retire(&self, session: &SessionKey, queue: &mpsc::Receiver<Queued>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let done = queue.is_empty() && !lanes.get(session).is_some_and(LaneHandle::awaits_more);
        if done {
            lanes.remove(session);
        }
        done
    }
}

/// The name of the turn a message begins: the same after a restart when the message has an id.
pub(super) fn turn_of(message: &InboundMessage) -> TraceId {
    message.journal_id().map_or_else(|| TraceId::from("unnamed"), |id| TraceId::from(id.as_str()))
}
