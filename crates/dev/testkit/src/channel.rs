//! A channel without a platform: it records the parts sent and delivers the messages a test
//! provides.

use std::collections::VecDeque;
use std::future;
use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    Admission, Arrival, Channel, ChannelContext, ChannelError, ChannelName, ChatId,
    DeliveryContext, DeliveryGuarantee, Drafts, Format, InboundMessage, Measure, OutboundKey,
    OutboundKind, OutboundMessage, OutboundPart, PlainText, Sent, StreamId, TextStyle, Typing,
    async_trait,
};

use crate::TestkitError;
use crate::sync::Watched;

/// A fault for one send.
#[derive(Debug)]
pub enum SendFault {
    /// No fault: accepts and records the part.
    None,
    /// Rejects the part with this error.
    Refuse(ChannelError),
    /// Accepts and records the part, then fails with this error.
    TakeThenFail(ChannelError),
    /// Never returns.
    Hang,
}

/// A [`Channel`] that records the parts it is asked to send.
///
/// Unless built otherwise, it takes plain text of up to 4,000 code points a part with best-effort
/// delivery. It has drafts and a typing indicator unless built
/// [without](RecordingChannel::without_abilities).
#[derive(Debug)]
pub struct RecordingChannel {
    name: ChannelName,
    style: TextStyle,
    guarantee: DeliveryGuarantee,
    has_abilities: bool,
    record: Watched<ChannelRecord>,
}

#[derive(Debug, Default)]
struct ChannelRecord {
    context: Option<ChannelContext>,
    runs: usize,
    crash: Option<ChannelError>,
    attempts: usize,
    parts: Vec<OutboundPart>,
    faults: VecDeque<SendFault>,
    drafts: Vec<OutboundMessage>,
    typing: Vec<ChatId>,
}

impl RecordingChannel {
    /// Creates a channel of that name.
    #[must_use]
    pub fn new(name: impl Into<ChannelName>) -> Self {
        Self {
            name: name.into(),
            style: TextStyle {
                format: Format::Markup(&PlainText),
                measure: Measure::CodePoints,
                limit: 4000,
            },
            guarantee: DeliveryGuarantee::BestEffort,
            has_abilities: true,
            record: Watched::default(),
        }
    }

    /// Sets the text style.
    #[must_use]
    pub fn with_style(self, style: TextStyle) -> Self {
        Self { style, ..self }
    }

    /// Sets the delivery guarantee. It is a claim only: repeated sends are recorded as they come.
    #[must_use]
    pub fn with_guarantee(self, guarantee: DeliveryGuarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// Removes drafts and the typing indicator.
    #[must_use]
    pub fn without_abilities(self) -> Self {
        Self {
            has_abilities: false,
            ..self
        }
    }

    /// Scripts a fault for the next send that has none yet.
    pub fn fail_next(&self, fault: SendFault) {
        self.record.change(|record| record.faults.push_back(fault));
    }

    /// Ends the current (or next) [`Channel::run`] with this error.
    pub fn crash(&self, error: ChannelError) {
        self.record.change(|record| record.crash = Some(error));
    }

    /// Delivers a message as if the platform had sent it, once the channel runs.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the channel is not run.
    pub async fn receive(
        &self,
        message: InboundMessage,
        arrival: &Arrival,
    ) -> Result<Admission, TestkitError> {
        let context = self
            .record
            .wait_for("a running channel", |record| record.context.clone())
            .await?;
        context.progress.alive();
        Ok(context.intake.deliver(message, arrival).await)
    }

    /// Returns every part taken so far, in order.
    #[must_use]
    pub fn parts(&self) -> Vec<OutboundPart> {
        self.record.read(|record| record.parts.clone())
    }

    /// Returns the texts of the parts taken so far.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.record
            .read(|record| record.parts.iter().map(|part| part.text.clone()).collect())
    }

    /// Waits until `count` parts were taken, and returns them all.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_parts(&self, count: usize) -> Result<Vec<OutboundPart>, TestkitError> {
        let what = format!("{count} sent parts");
        self.record
            .wait_for(&what, |record| {
                (record.parts.len() >= count).then(|| record.parts.clone())
            })
            .await
    }

    /// Returns the number of [`Channel::send`] calls, successful or not.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.record.read(|record| record.attempts)
    }

    /// Waits until [`Channel::send`] was called `count` times.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_attempts(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} attempts to send");
        self.record
            .wait_for(&what, |record| (record.attempts >= count).then_some(()))
            .await
    }

    /// Returns the number of [`Channel::run`] calls.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.record.read(|record| record.runs)
    }

    /// Waits until [`Channel::run`] was called `count` times.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_runs(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} runs of the channel");
        self.record
            .wait_for(&what, |record| (record.runs >= count).then_some(()))
            .await
    }

    /// Returns the deltas and stream ends shown as drafts, in order.
    #[must_use]
    pub fn draft_events(&self) -> Vec<OutboundMessage> {
        self.record.read(|record| record.drafts.clone())
    }

    /// Returns the chats in which the typing indicator was shown, once per call.
    #[must_use]
    pub fn typing_shown(&self) -> Vec<ChatId> {
        self.record.read(|record| record.typing.clone())
    }

    fn take(&self, part: &OutboundPart) -> Sent {
        self.record.change(|record| {
            record.parts.push(part.clone());
            Sent {
                message_id: Some(record.parts.len().to_string().as_str().into()),
            }
        })
    }

    async fn crashed(&self) -> ChannelError {
        let mut changed = self.record.subscribe();
        loop {
            // Taking the error would announce a change and wake every waiter, so check without
            // taking first.
            if self.record.read(|record| record.crash.is_some())
                && let Some(error) = self.record.change(|record| record.crash.take())
            {
                return error;
            }
            if changed.changed().await.is_err() {
                future::pending::<()>().await;
            }
        }
    }
}

#[async_trait]
impl Channel for RecordingChannel {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let cancel = context.cancel.clone();
        context.progress.alive();
        self.record.change(|record| {
            record.context = Some(context);
            record.runs += 1;
        });
        let outcome = tokio::select! {
            // Prefer cancellation: a crash scripted at the same time is left to the next run.
            biased;
            () = cancel.cancelled() => Ok(()),
            error = self.crashed() => Err(error),
        };
        self.record.change(|record| record.context = None);
        outcome
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let fault = self.record.change(|record| {
            record.attempts += 1;
            record.faults.pop_front()
        });
        match fault {
            None | Some(SendFault::None) => Ok(self.take(part)),
            Some(SendFault::Refuse(error)) => Err(error),
            Some(SendFault::TakeThenFail(error)) => {
                self.take(part);
                Err(error)
            }
            Some(SendFault::Hang) => future::pending().await,
        }
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        self.guarantee
    }

    fn text_style(&self) -> TextStyle {
        self.style
    }

    fn drafts(&self) -> Option<&dyn Drafts> {
        self.has_abilities.then_some(self)
    }

    fn typing(&self) -> Option<&dyn Typing> {
        self.has_abilities.then_some(self)
    }
}

#[async_trait]
impl Drafts for RecordingChannel {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        self.record
            .change(|record| record.drafts.push(delta.clone()));
        Ok(())
    }

    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        self.record.change(|record| record.drafts.push(end.clone()));
        Ok(())
    }

    async fn withdraw(
        &self,
        stream: &StreamId,
        message: &OutboundMessage,
    ) -> Result<(), ChannelError> {
        let kind = OutboundKind::Withdrawn {
            stream: stream.clone(),
        };
        let withdrawn = OutboundMessage {
            kind,
            ..message.clone()
        };
        self.record.change(|record| record.drafts.push(withdrawn));
        Ok(())
    }
}

#[async_trait]
impl Typing for RecordingChannel {
    fn lasts(&self) -> Duration {
        Duration::from_secs(5)
    }

    async fn show(&self, chat: &ChatId, _delivery: &DeliveryContext) -> Result<(), ChannelError> {
        self.record
            .change(|record| record.typing.push(chat.clone()));
        Ok(())
    }
}

/// Returns a part that carries a whole message, for tests of channels.
#[must_use]
pub fn single_part(message: OutboundMessage) -> OutboundPart {
    let text = message.content.clone();
    let (plain, blocks) = (text.clone(), Vec::new());
    OutboundPart {
        message: Arc::new(message),
        index: 0,
        count: 1,
        text,
        plain,
        blocks,
        in_doubt: false,
    }
}

/// Returns a reply in one part, whose text is also its markup.
#[must_use]
pub fn reply_part(inbound: &InboundMessage, text: &str) -> OutboundPart {
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    single_part(OutboundMessage::in_reply_to(
        inbound,
        key,
        OutboundKind::Final,
        text.to_owned(),
    ))
}

/// Returns the part with changes to its message.
#[must_use]
pub fn changed_part(part: OutboundPart, change: impl FnOnce(&mut OutboundMessage)) -> OutboundPart {
    let mut message = (*part.message).clone();
    change(&mut message);
    OutboundPart {
        message: Arc::new(message),
        ..part
    }
}
