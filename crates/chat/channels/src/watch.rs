//! Observer of sent messages and rejected people.
//!
//! Decision: a watch observes and changes nothing. The worker waits for it before it settles a
//! message, so that a settled message is on record.

use nanobot_channel::{ChannelName, ChatId, OutboundMessage, SenderId, async_trait};

/// Observes the channels.
#[async_trait]
pub trait ChannelWatch: Send + Sync + std::fmt::Debug {
    /// Records a message that will not be sent again; `problem` is why it was not sent, or may not
    /// have been. Must return soon in every case, because the next message waits for it.
    async fn sent(&self, message: &OutboundMessage, problem: Option<&str>);

    /// Records that a person was denied access. Called once for a person, as long as the program
    /// runs.
    async fn rejected(&self, channel: &ChannelName, chat: &ChatId, sender: &SenderId);
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatch;

#[async_trait]
impl ChannelWatch for NoWatch {
    async fn sent(&self, _: &OutboundMessage, _: Option<&str>) {}

    async fn rejected(&self, _: &ChannelName, _: &ChatId, _: &SenderId) {}
}
