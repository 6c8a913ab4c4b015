//! Outbound parts, text styles, and the optional abilities of a channel.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_markup::Block;
use nanobot_types::{ChatId, DeliveryContext, MessageId, OutboundMessage, StreamId};

use crate::ChannelError;

/// A platform's guarantee for a part that is sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryGuarantee {
    /// The platform drops a second send under the same key.
    Idempotent {
        /// Duration of the guarantee; `None` means unlimited.
        window: Option<Duration>,
    },
    /// The channel can find out whether a part arrived, and does so if a part is
    /// [in doubt](OutboundPart::in_doubt).
    Detectable,
    /// The channel can find out, in the same way, whether a reply that a [draft](Drafts) became
    /// arrived; for other parts it cannot be found out.
    PartlyDetectable,
    /// It cannot be found out whether a part arrived.
    BestEffort,
}

/// One finished part of an outbound message: the unit of sending and retrying.
#[derive(Clone, Debug)]
pub struct OutboundPart {
    /// The complete message. Media and buttons belong to the first part.
    pub message: Arc<OutboundMessage>,
    /// Index of the part, from 0.
    pub index: u32,
    /// Number of parts, at least 1.
    pub count: u32,
    /// The text in the channel's markup, within its limit.
    pub text: String,
    /// The same text without markup, used if the platform rejects the markup.
    pub plain: String,
    /// The same text as blocks, if it contains a table that the platform shows natively
    /// ([`Markup::table_limits`](nanobot_markup::Markup::table_limits)); empty otherwise. `text` is
    /// used if the platform rejects the blocks.
    pub blocks: Vec<Block>,
    /// Set if an earlier attempt may have arrived, for [`DeliveryGuarantee::Detectable`] and
    /// [`DeliveryGuarantee::PartlyDetectable`] only. The channel then looks for the part first. It
    /// returns `Ok` if the part is there, sends it if it is certainly not there, and returns
    /// [`ChannelError::Ambiguous`] without sending if it cannot find out. If this is not set, the
    /// part is to be sent, whatever the outcome of earlier attempts.
    pub in_doubt: bool,
}

impl OutboundPart {
    /// Returns the idempotency key for platforms that drop repeated sends: it is the same for every
    /// attempt to send this part. A lossy message has a key of its own, which is not that of the
    /// reply.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.message.key, self.index)
    }
}

/// The platform's answer to a part that it accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The platform's id of the new message, if it assigns one.
    pub message_id: Option<MessageId>,
}

/// Live drafts: text shown while it is being written. Drafts are decoration: errors are logged and
/// otherwise ignored, and the [`crate::Channel::send`] of the message that completes the stream
/// replaces the draft with the whole text.
#[async_trait]
pub trait Drafts: Send + Sync {
    /// Shows more text: `delta` is a [`nanobot_types::OutboundKind::Delta`]. Called often; the
    /// channel merges deltas that come faster than the platform allows.
    ///
    /// # Errors
    /// Returns an error if the text could not be shown.
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError>;

    /// Ends the stream: `end` is a [`nanobot_types::OutboundKind::StreamEnd`].
    ///
    /// # Errors
    /// Returns an error if the last of the text could not be shown.
    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError>;

    /// Removes the draft of a stream that no reply will complete. `message` names the chat. The
    /// stream may already be [closed](Self::close).
    ///
    /// # Errors
    /// Returns an error if the draft could not be removed.
    async fn withdraw(
        &self,
        stream: &StreamId,
        message: &OutboundMessage,
    ) -> Result<(), ChannelError>;
}

/// Notifies client programs of the end of each turn, even if the turn said nothing.
#[async_trait]
pub trait TurnEnds: Send + Sync {
    /// Reports the end of a turn: `end` is a [`nanobot_types::OutboundKind::TurnEnd`]. The report
    /// may be lost.
    ///
    /// # Errors
    /// Returns an error if it could not be sent; the error is logged and otherwise ignored.
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError>;
}

/// Checks the platform and the credentials, for the operator.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Returns the identity that the platform reports for the credentials (`@bot`). The request
    /// changes nothing and does not interfere with receiving. Works also while
    /// [`crate::Channel::run`] is not running.
    ///
    /// # Errors
    /// Returns an error if the platform cannot be used.
    async fn probe(&self) -> Result<String, ChannelError>;
}

/// The typing indicator.
#[async_trait]
pub trait Typing: Send + Sync {
    /// Returns how long the indicator stays visible after one call of [`Typing::show`].
    fn lasts(&self) -> Duration;

    /// Shows that the assistant is working.
    ///
    /// # Errors
    /// Returns an error if it could not be shown; the error is logged and otherwise ignored.
    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError>;
}
