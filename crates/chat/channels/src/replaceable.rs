//! A channel that can be replaced while others use it.
//!
//! Decision: the outbound worker and the typing indicator hold this wrapper, which forwards each
//! call to the current channel. A channel that hangs may hold its own locks for ever, so running it
//! again is not enough.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, ChatId, DeliveryContext, DeliveryGuarantee,
    Drafts, OutboundMessage, OutboundPart, Probe, Sent, StreamId, TextStyle, TurnEnds, Typing,
    async_trait,
};

use crate::managed::Remake;

/// Forwards calls to the current channel.
pub(crate) struct Replaceable {
    name: ChannelName,
    current: RwLock<Arc<dyn Channel>>,
    remake: Option<Remake>,
}

impl Replaceable {
    pub(crate) fn new(channel: Arc<dyn Channel>, remake: Option<Remake>) -> Self {
        Self {
            name: channel.name().clone(),
            current: RwLock::new(channel),
            remake,
        }
    }

    /// Returns the current channel.
    pub(crate) fn current(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rebuilds the channel if a way to do so is known. The old one stays if that fails.
    pub(crate) fn replace(&self) {
        let Some(remake) = &self.remake else { return };
        match remake() {
            Ok(channel) => *self.current.write().unwrap_or_else(PoisonError::into_inner) = channel,
            Err(error) => {
                tracing::error!(channel = %self.name, %error, "cannot rebuild the channel");
            }
        }
    }
}

impl std::fmt::Debug for Replaceable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replaceable")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Error for a capability that the channel lost in a replacement, between the check for it and its
/// use.
fn replaced_error() -> ChannelError {
    ChannelError::Unavailable("the channel has just been replaced".to_owned())
}

#[async_trait]
impl Channel for Replaceable {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        self.current().run(context).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        self.current().send(part).await
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        self.current().guarantee()
    }

    fn text_style(&self) -> TextStyle {
        self.current().text_style()
    }

    fn drafts(&self) -> Option<&dyn Drafts> {
        self.current().drafts().is_some().then_some(self)
    }

    fn typing(&self) -> Option<&dyn Typing> {
        self.current().typing().is_some().then_some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.current().turn_ends().is_some().then_some(self)
    }

    fn probe(&self) -> Option<&dyn Probe> {
        self.current().probe().is_some().then_some(self)
    }
}

#[async_trait]
impl Drafts for Replaceable {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        self.current()
            .drafts()
            .ok_or_else(replaced_error)?
            .append(delta)
            .await
    }

    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        self.current()
            .drafts()
            .ok_or_else(replaced_error)?
            .close(end)
            .await
    }

    async fn withdraw(
        &self,
        stream: &StreamId,
        message: &OutboundMessage,
    ) -> Result<(), ChannelError> {
        self.current()
            .drafts()
            .ok_or_else(replaced_error)?
            .withdraw(stream, message)
            .await
    }
}

#[async_trait]
impl Typing for Replaceable {
    fn lasts(&self) -> Duration {
        self.current()
            .typing()
            .map_or(Duration::from_secs(5), Typing::lasts)
    }

    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError> {
        self.current()
            .typing()
            .ok_or_else(replaced_error)?
            .show(chat, delivery)
            .await
    }
}

#[async_trait]
impl TurnEnds for Replaceable {
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        self.current()
            .turn_ends()
            .ok_or_else(replaced_error)?
            .ended(end)
            .await
    }
}

#[async_trait]
impl Probe for Replaceable {
    async fn probe(&self) -> Result<String, ChannelError> {
        self.current()
            .probe()
            .ok_or_else(replaced_error)?
            .probe()
            .await
    }
}
