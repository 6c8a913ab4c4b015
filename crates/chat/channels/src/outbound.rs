//! Sends the outbound messages of one channel from the ledger, part by part, and settles them.
//!
//! Decision: each channel has its own worker, so a channel that hangs delays no other. A message
//! that has to be retried goes back to the ledger with a due time, so an unreachable chat delays no
//! other chat (see [`crate::waiting`]). A message that the platform has is settled in one commit with
//! the begin of the next one, so that many short replies wait for the disk once each. A part that
//! may or may not have been sent is sent again if the platform drops repeated sends, or if the
//! channel can look for it first; if neither helps, [`UncertainPolicy`] decides. If a reply will not
//! arrive, the chat gets a notice before the reply is settled. A crash in between publishes the
//! notice twice, and the ledger drops the duplicate (see [`crate::delivery_notice`]).

use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{
    Accepted, Bus, BusError, Delivery, Ledger, LedgerFilter, Queue, REDELIVERY_DELAY,
    SettleOutcome, Subscription,
};
use nanobot_channel::{
    Channel, ChannelError, ChannelName, DeliveryGuarantee, OutboundKind, OutboundMessage,
    OutboundPart, SendRecovery,
};
use nanobot_text::{RenderedPart, render};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::delivery_notice::{self, DeliveryProblem};
use crate::settings::CLOCK_LIMIT;
use crate::waiting::WaitingChats;
use crate::working::WorkKeeper;
use crate::{ChannelSettings, ChannelWatch, Stickers, UncertainPolicy, backoff};

/// Initial backoff before a part is retried.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum backoff before a part is retried.
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Maximum backoff while the recipient is away and nothing is wrong. Jitter makes a backoff up to a
/// quarter longer, so waiting messages arrive within five seconds of the recipient's return.
const MAX_AWAY_BACKOFF: Duration = Duration::from_secs(4);
/// Timeout for showing a lossy message, such as a delta or progress.
const LOSSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a send in flight may still take at shutdown.
const SEND_GRACE: Duration = Duration::from_secs(2);
/// Time without a message after which the queue counts as empty during a flush.
const EMPTY_AFTER: Duration = Duration::from_millis(100);

/// Maximum number of open messages read when a worker starts.
const MAX_INHERITED: usize = 1000;

/// Sends the outbound messages of one channel.
pub(crate) struct OutboundWorker {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) settings: watch::Receiver<ChannelSettings>,
    pub(crate) bus: Arc<dyn Bus>,
    /// The ledger of the same bus, used to find messages left from before the start.
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) working: WorkKeeper,
    /// Fires when the worker has to send what is queued now and end.
    pub(crate) flush: CancellationToken,
    /// Fires when the worker has to end.
    pub(crate) cancel: CancellationToken,
    pub(crate) waiting: WaitingChats,
    pub(crate) stickers: Stickers,
    pub(crate) watch: Arc<dyn ChannelWatch>,
    /// A message that the platform has, and that is not settled yet.
    pub(crate) delivered: Option<Delivery<OutboundMessage>>,
}

/// State of a message after the worker handled it.
enum DeliveryEnd {
    /// The platform has it; it is to be settled.
    Sent,
    /// It is settled, or left to be redelivered.
    Settled,
}

/// Outcome of sending one part.
enum PartOutcome {
    Sent,
    Failed(ChannelError),
    /// The program is shutting down; the platform may or may not have the part.
    Abandoned,
}

impl OutboundWorker {
    /// Sends until the bus closes or the worker is flushed or cancelled.
    pub(crate) async fn run(mut self) {
        let Some(mut subscription) = self.subscribe().await else {
            return;
        };
        self.inherit().await;
        self.working.resume(Arc::clone(&self.ledger)).await;
        while let Some(delivery) = self.next(&mut subscription).await {
            self.handle(delivery).await;
        }
        self.settle_delivered().await;
    }

    /// Finds the chats that have waited since before the start, so that newer messages do not
    /// overtake older ones. Only the order depends on it, so an error is logged and ignored.
    async fn inherit(&mut self) {
        match self
            .ledger
            .list(Queue::Outbound, LedgerFilter::Open, MAX_INHERITED)
            .await
        {
            Ok(open) => {
                let oldest_first = open.into_iter().rev();
                for entry in oldest_first {
                    if let Some(message) = entry
                        .outbound
                        .filter(|message| message.channel == *self.channel.name())
                    {
                        self.waiting.inherit(&message, entry.attempts > 0);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(channel = %self.name(), %error, "cannot read messages queued before the start");
            }
        }
    }

    /// Waits until the channel's queue has no other consumer.
    async fn subscribe(&self) -> Option<Subscription<OutboundMessage>> {
        let mut tries = 0;
        loop {
            let error = match self.bus.outbound(self.name()).await {
                Ok(subscription) => return Some(subscription),
                Err(BusError::Closed) => return None,
                Err(error) => error,
            };
            tracing::warn!(channel = %self.name(), %error, "cannot read the channel's outbound queue yet");
            let rest =
                tokio::time::sleep(backoff::exponential(INITIAL_BACKOFF, MAX_BACKOFF, tries));
            self.cancel.run_until_cancelled(rest).await?;
            tries = tries.saturating_add(1);
        }
    }

    /// Returns the next message. If none is at hand, the delivered one is settled before the wait.
    async fn next(
        &mut self,
        subscription: &mut Subscription<OutboundMessage>,
    ) -> Option<Delivery<OutboundMessage>> {
        if self.delivered.is_some() {
            tokio::select! {
                biased;
                next = self.wait_for_next(subscription) => return next,
                () = std::future::ready(()) => {}
            }
            self.settle_delivered().await;
        }
        self.wait_for_next(subscription).await
    }

    async fn wait_for_next(
        &self,
        subscription: &mut Subscription<OutboundMessage>,
    ) -> Option<Delivery<OutboundMessage>> {
        let flushed = async {
            self.flush.cancelled().await;
            tokio::time::sleep(EMPTY_AFTER).await;
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            delivery = subscription.next() => delivery,
            () = flushed => None,
        }
    }

    fn name(&self) -> &ChannelName {
        self.channel.name()
    }

    async fn handle(&mut self, delivery: Delivery<OutboundMessage>) {
        let settled = if delivery.message.kind.is_durable() {
            match self.deliver(&delivery).await {
                Ok(DeliveryEnd::Sent) => {
                    self.delivered = Some(delivery);
                    return;
                }
                Ok(DeliveryEnd::Settled) => Ok(()),
                Err(error) => Err(error),
            }
        } else {
            self.show(&delivery.message).await;
            delivery.settle(SettleOutcome::Ack).await
        };
        self.log_unsettled(&delivery, settled);
    }

    fn log_unsettled(&self, delivery: &Delivery<OutboundMessage>, settled: Result<(), BusError>) {
        if let Err(error) = settled {
            let (channel, key) = (self.name(), &delivery.message.key);
            tracing::error!(%channel, %key, %error, "an outbound message could not be settled");
        }
    }

    /// Settles the delivered message, if there is one.
    async fn settle_delivered(&mut self) {
        if let Some(delivered) = self.delivered.take() {
            let settled = delivered.settle(SettleOutcome::Ack).await;
            self.log_unsettled(&delivered, settled);
        }
    }

    /// Records that a message is about to be sent, and settles the delivered one.
    async fn begin(&mut self, delivery: &Delivery<OutboundMessage>) -> Result<(), BusError> {
        let begun = delivery.settle(SettleOutcome::Begin);
        let Some(delivered) = self.delivered.take() else {
            return begun.await;
        };
        // Queued in this order: whatever ends the program, a message that was begun leaves no doubt
        // about the one before it.
        let (settled, begun) = tokio::join!(biased; delivered.settle(SettleOutcome::Ack), begun);
        self.log_unsettled(&delivered, settled);
        begun
    }

    /// Shows a lossy message, if the settings and the channel want it.
    async fn show(&mut self, message: &OutboundMessage) {
        let is_shown = {
            let settings = self.settings.borrow();
            let drafts = self.channel.drafts().is_some();
            match message.kind {
                // A draft has already shown this text, and stays.
                OutboundKind::Progress if drafts && message.completes.is_some() => false,
                OutboundKind::Progress => settings.delivery.send_progress,
                OutboundKind::ToolHint => settings.delivery.send_tool_hints,
                OutboundKind::Delta { .. }
                | OutboundKind::StreamEnd { .. }
                | OutboundKind::Withdrawn { .. } => drafts,
                OutboundKind::TurnEnd { .. } => {
                    self.working.end(message);
                    self.channel.turn_ends().is_some()
                }
                OutboundKind::Activity { .. }
                | OutboundKind::Final
                | OutboundKind::Notice
                | OutboundKind::Question => false,
            }
        };
        // Text that accompanies tool calls is known to be a thought only when its stream ends.
        let is_unwanted_thought =
            matches!(message.kind, OutboundKind::StreamEnd { resuming: true, .. })
                && !self.settings.borrow().delivery.send_progress;
        self.working.record(message, is_shown);
        if !is_shown {
            return;
        }
        self.settle_delivered().await;
        let showing = async {
            match (
                &message.kind,
                self.channel.drafts(),
                self.channel.turn_ends(),
            ) {
                (OutboundKind::Delta { .. }, Some(drafts), _) => drafts.append(message).await,
                (OutboundKind::StreamEnd { stream, .. }, Some(drafts), _)
                    if is_unwanted_thought =>
                {
                    drafts.withdraw(stream, message).await
                }
                (OutboundKind::StreamEnd { .. }, Some(drafts), _) => drafts.close(message).await,
                (OutboundKind::Withdrawn { stream }, Some(drafts), _) => {
                    drafts.withdraw(stream, message).await
                }
                (OutboundKind::TurnEnd { .. }, _, Some(ends)) => ends.ended(message).await,
                _ => {
                    let mut message = self.stickers.resolve(message).await;
                    // Offered under the key of the reply, which a platform that drops repetitions
                    // would otherwise take for a repetition of this message.
                    let own = Uuid::new_v4().simple();
                    message.key.turn = format!("{}/{own}", message.key.turn).into();
                    for part in self.parts(&Arc::new(message)) {
                        self.channel.send(&part).await?;
                    }
                    Ok(())
                }
            }
        };
        let in_time = tokio::time::timeout(LOSSY_TIMEOUT, showing);
        let Some(shown) = self.cancel.run_until_cancelled(in_time).await else {
            return;
        };
        let timed_out = || ChannelError::Unavailable("it took too long".to_owned());
        if let Err(error) = shown.unwrap_or_else(|_| Err(timed_out())) {
            tracing::debug!(channel = %self.name(), %error, "could not show progress");
        }
    }

    /// Sends a message, and settles it unless it was sent. An error comes from the ledger, which
    /// redelivers the message.
    async fn deliver(
        &mut self,
        delivery: &Delivery<OutboundMessage>,
    ) -> Result<DeliveryEnd, BusError> {
        let settled = |settled: Result<(), BusError>| settled.map(|()| DeliveryEnd::Settled);
        if let Some(pause) = self.waiting.remaining_wait(&delivery.message) {
            return settled(delivery.settle(SettleOutcome::RetryIn(pause)).await);
        }
        if delivery.in_doubt && !self.may_repeat() && !self.is_partly_detectable() {
            let why = format!(
                "sending part {} was interrupted: the platform may have it",
                delivery.parts_sent + 1
            );
            return settled(self.settle_uncertain(delivery, why).await);
        }
        let message = Arc::new(self.stickers.resolve(&delivery.message).await);
        let mut parts = self.parts(&message);
        if parts.is_empty() {
            self.notify_chat(delivery, DeliveryProblem::Empty).await;
            let outcome = SettleOutcome::Discard("there is nothing to show in it".to_owned());
            return settled(self.settle_finally(delivery, outcome).await);
        }
        self.begin(delivery).await?;
        for part in parts
            .iter_mut()
            .filter(|part| part.index >= delivery.parts_sent)
        {
            let in_doubt = delivery.in_doubt && part.index == delivery.parts_sent;
            let outcome = if in_doubt {
                self.send_again(part).await
            } else {
                self.send(part).await
            };
            match outcome {
                // The settlement of the message covers its last part.
                PartOutcome::Sent if part.index + 1 == part.count => {}
                PartOutcome::Sent => delivery.settle(SettleOutcome::PartSent(part.index)).await?,
                PartOutcome::Failed(error) => {
                    return settled(self.handle_failure(delivery, in_doubt, &error).await);
                }
                PartOutcome::Abandoned => return Ok(DeliveryEnd::Settled),
            }
        }
        self.conclude(&delivery.message, &SettleOutcome::Ack).await;
        Ok(DeliveryEnd::Sent)
    }

    fn is_idempotent(&self) -> bool {
        matches!(
            self.channel.guarantee(),
            DeliveryGuarantee::Idempotent { .. }
        )
    }

    fn is_detectable(&self) -> bool {
        self.channel.guarantee() == DeliveryGuarantee::Detectable
    }

    /// `true` if the channel can look for some of the parts that an earlier program sent.
    fn is_partly_detectable(&self) -> bool {
        self.is_detectable() || self.channel.guarantee() == DeliveryGuarantee::PartlyDetectable
    }

    fn policy(&self) -> UncertainPolicy {
        self.settings.borrow().delivery.uncertain
    }

    /// `true` if a part that may have been sent is sent again.
    fn may_repeat(&self) -> bool {
        self.is_idempotent() || self.policy() == UncertainPolicy::ResendMarked
    }

    /// Notifies the chat of what became of a message. Only final replies get such a notice, never a
    /// notice itself or another message that the assistant sends on its own behalf.
    async fn notify_chat(
        &mut self,
        delivery: &Delivery<OutboundMessage>,
        problem: DeliveryProblem<'_>,
    ) {
        if delivery.message.kind != OutboundKind::Final {
            return;
        }
        let notice = delivery_notice::notice(&delivery.message, problem);
        let key = notice.key.clone();
        match self.bus.publish_outbound(notice).await {
            Ok(Accepted::New) => self.waiting.queue_notice(&delivery.message, key),
            Ok(Accepted::Duplicate) => {}
            Err(error) => {
                tracing::error!(channel = %self.name(), %error, "could not notify a chat of a failed message");
            }
        }
    }

    /// Settles a message that may or may not have been sent.
    async fn settle_uncertain(
        &mut self,
        delivery: &Delivery<OutboundMessage>,
        why: String,
    ) -> Result<(), BusError> {
        if self.policy() != UncertainPolicy::Drop {
            self.notify_chat(delivery, DeliveryProblem::Uncertain).await;
        }
        self.settle_finally(delivery, SettleOutcome::Uncertain(why))
            .await
    }

    /// Settles a message that will not be sent.
    async fn settle_failed(
        &mut self,
        delivery: &Delivery<OutboundMessage>,
        error: &ChannelError,
        why: String,
    ) -> Result<(), BusError> {
        if delivery_notice::is_chat_reachable_after(error) {
            self.notify_chat(delivery, DeliveryProblem::Failed { why: &why })
                .await;
        }
        self.settle_finally(delivery, SettleOutcome::Fail(why))
            .await
    }

    /// Settles a message for good.
    async fn settle_finally(
        &mut self,
        delivery: &Delivery<OutboundMessage>,
        outcome: SettleOutcome,
    ) -> Result<(), BusError> {
        self.conclude(&delivery.message, &outcome).await;
        delivery.settle(outcome).await
    }

    /// Ends what waits for a message, and reports its outcome.
    async fn conclude(&mut self, message: &OutboundMessage, outcome: &SettleOutcome) {
        let (channel, key) = (self.name(), &message.key);
        match outcome {
            SettleOutcome::Fail(why) => {
                tracing::error!(%channel, %key, why, "a message could not be sent");
            }
            SettleOutcome::Uncertain(why) => {
                tracing::error!(%channel, %key, why, "a message may or may not have been sent");
            }
            _ => {}
        }
        // Messages that a tool sends during the turn have other slots.
        let is_answer = matches!(message.kind, OutboundKind::Final | OutboundKind::Notice);
        if is_answer && message.key.is_reply() {
            self.working.end(message);
        }
        self.waiting.settled(message);
        let problem = match outcome {
            SettleOutcome::Fail(why)
            | SettleOutcome::Uncertain(why)
            | SettleOutcome::Discard(why) => Some(why.as_str()),
            _ => None,
        };
        self.watch.sent(message, problem).await;
    }

    /// Handles a failed send. `in_doubt` is `true` if the part may have been sent before this try.
    async fn handle_failure(
        &mut self,
        delivery: &Delivery<OutboundMessage>,
        in_doubt: bool,
        error: &ChannelError,
    ) -> Result<(), BusError> {
        match error.recovery() {
            SendRecovery::Retry { after } => {
                let record = self.waiting.next_record(&delivery.message);
                let (retries, patience) = {
                    let settings = self.settings.borrow();
                    (
                        settings.delivery.send_max_retries,
                        settings.delivery.send_patience(),
                    )
                };
                if record.tries > retries && record.since.elapsed() >= patience {
                    let why = format!("{error} (tried {} times)", record.tries);
                    return match in_doubt {
                        true => self.settle_uncertain(delivery, why).await,
                        false => self.settle_failed(delivery, error, why).await,
                    };
                }
                let (channel, key) = (self.name(), &delivery.message.key);
                let max_backoff = if let ChannelError::Away(_) = error {
                    tracing::debug!(%channel, %key, %error, "a message waits for an earlier one of its chat");
                    MAX_AWAY_BACKOFF
                } else {
                    tracing::warn!(%channel, %key, %error, "retrying a message later");
                    MAX_BACKOFF
                };
                let pause = after.unwrap_or_else(|| {
                    backoff::exponential(INITIAL_BACKOFF, max_backoff, record.tries - 1)
                });
                let pause = pause.min(CLOCK_LIMIT);
                self.waiting.wait(&delivery.message, record, pause);
                delivery.settle(SettleOutcome::RetryIn(pause)).await
            }
            SendRecovery::Uncertain => {
                let record = self.waiting.next_record(&delivery.message);
                let can_probe = self.is_detectable() && !in_doubt;
                let can_repeat =
                    || record.tries <= self.settings.borrow().delivery.send_max_retries;
                if !(can_probe || self.may_repeat() && can_repeat()) {
                    return self.settle_uncertain(delivery, error.to_string()).await;
                }
                let (channel, key) = (self.name(), &delivery.message.key);
                tracing::warn!(%channel, %key, %error, can_probe, "retrying a message that may have been sent");
                // Left unsettled, it is redelivered in doubt.
                self.waiting
                    .wait(&delivery.message, record, REDELIVERY_DELAY);
                Ok(())
            }
            SendRecovery::GiveUp => self.settle_failed(delivery, error, error.to_string()).await,
        }
    }

    /// Sends a part that may have been sent already. The platform drops the repeat, or the channel
    /// looks for the part first, or the part is marked as a possible repeat.
    async fn send_again(&self, part: &mut OutboundPart) -> PartOutcome {
        if self.is_idempotent() {
            return self.send(part).await;
        }
        if self.is_partly_detectable() {
            part.in_doubt = true;
            let outcome = self.send(part).await;
            let is_unknown = matches!(&outcome, PartOutcome::Failed(error) if error.recovery() == SendRecovery::Uncertain);
            if !is_unknown || self.policy() != UncertainPolicy::ResendMarked {
                return outcome;
            }
            part.in_doubt = false;
        }
        delivery_notice::mark(part);
        self.send(part).await
    }

    async fn send(&self, part: &OutboundPart) -> PartOutcome {
        let timeout = self.settings.borrow().delivery.send_timeout();
        let stopped = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(SEND_GRACE).await;
        };
        tokio::select! {
            sent = self.channel.send(part) => match sent {
                Ok(_) => PartOutcome::Sent,
                Err(error) => PartOutcome::Failed(error),
            },
            () = tokio::time::sleep(timeout) => {
                PartOutcome::Failed(ChannelError::Ambiguous(format!("no answer within {} s", timeout.as_secs())))
            }
            () = stopped => PartOutcome::Abandoned,
        }
    }

    /// Renders a message into parts. A message with only files or buttons gets one part without
    /// text.
    fn parts(&self, message: &Arc<OutboundMessage>) -> Vec<OutboundPart> {
        let mut style = self.channel.text_style();
        if !self.is_idempotent() && self.policy() == UncertainPolicy::ResendMarked {
            style.limit = delivery_notice::limit_with_mark(style.limit);
        }
        let mut rendered = render(&message.content, style);
        if rendered.is_empty() && !(message.media.is_empty() && message.buttons.is_empty()) {
            rendered.push(RenderedPart::of_text(String::new(), String::new()));
        }
        let count = u32::try_from(rendered.len()).unwrap_or(u32::MAX);
        let parts = (0..count).zip(rendered);
        parts
            .map(|(index, part)| OutboundPart {
                message: Arc::clone(message),
                index,
                count,
                text: part.text,
                plain: part.plain,
                blocks: part.blocks,
                in_doubt: false,
            })
            .collect()
    }
}
