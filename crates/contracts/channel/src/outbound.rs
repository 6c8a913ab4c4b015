//! What a channel is given to send.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_types::{ChatId, DeliveryContext, MessageId, OutboundMessage, StreamId};

use crate::ChannelError;

/// The markup a platform reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// None at all.
    Plain,
    /// Markdown as the model wrote it.
    Markdown,
    /// The tags of Telegram's `parse_mode=HTML`.
    TelegramHtml,
    /// The subset of Markdown that Discord shows.
    Discord,
    /// Slack's mrkdwn.
    SlackMrkdwn,
    /// The body of an HTML mail; the part without markup is its plain alternative.
    EmailHtml,
}

/// What a platform counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// UTF-16 code units.
    Utf16,
    /// Unicode code points.
    CodePoints,
    /// Bytes of UTF-8.
    Bytes,
}

impl Measure {
    /// The length of `text`.
    #[must_use]
    pub fn of(self, text: &str) -> usize {
        match self {
            Self::Utf16 => text.chars().map(char::len_utf16).sum(),
            Self::CodePoints => text.chars().count(),
            Self::Bytes => text.len(),
        }
    }
}

/// How text has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Its markup.
    pub dialect: Dialect,
    /// What its length is counted in.
    pub measure: Measure,
    /// How much fits into one part. Counted on the text without markup for Telegram, which takes the
    /// tags out first, and on everything elsewhere; a mail is not cut.
    pub limit: usize,
}

/// What a platform guarantees about a part that is sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryGuarantee {
    /// A second send under the same key is dropped by the platform.
    Idempotent {
        /// For how long; `None` is for ever.
        window: Option<Duration>,
    },
    /// The channel can find out whether a part arrived, and does so when a part is
    /// [in doubt](OutboundPart::in_doubt).
    Detectable,
    /// Nobody can tell.
    BestEffort,
}

/// One finished part of an outbound message, the unit of sending and of retrying.
#[derive(Clone, Debug)]
pub struct OutboundPart {
    /// The whole message. Media and buttons belong to the first part.
    pub message: Arc<OutboundMessage>,
    /// Which part, from 0.
    pub index: u32,
    /// How many there are, at least 1.
    pub count: u32,
    /// The text in the channel's dialect, within its limit.
    pub text: String,
    /// The same without markup, for when the platform refuses the markup.
    pub plain: String,
    /// The same as `text` in pieces, where there is a table that platforms of this dialect show
    /// themselves ([`Dialect::SlackMrkdwn`]); empty otherwise. `text` is for when the platform refuses
    /// them.
    pub blocks: Vec<Block>,
    /// An earlier try may have arrived. Set for [`DeliveryGuarantee::Detectable`] only: such a channel
    /// looks first and answers `Ok` with what is there, sends what is surely not there, and answers
    /// [`ChannelError::Ambiguous`] without sending where it cannot find out. Where this is not set,
    /// the part is to be sent, whatever became of earlier tries.
    pub in_doubt: bool,
}

impl OutboundPart {
    /// A key for platforms that drop repeated sends: the same for every try of this part.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.message.key, self.index)
    }
}

/// A piece of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Text in the channel's dialect, never blank.
    Text(String),
    /// A table, within the platform's limits. A part has one at most.
    Table(Table),
}

/// A table of plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Its rows, the head first, each with as many cells.
    pub rows: Vec<Vec<String>>,
    /// Whether a column keeps to the right, by its place.
    pub right: Vec<bool>,
}

/// What the platform said about a part it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The platform's id of the new message, where it gives one.
    pub message_id: Option<MessageId>,
}

/// Text shown while it is being written. Everything here is decoration: errors are logged and
/// forgotten, and the [`crate::Channel::send`] of the message that completes the stream shows
/// the whole text in place of the draft.
#[async_trait]
pub trait Drafts: Send + Sync {
    /// Shows more text: `delta` is a [`nanobot_types::OutboundKind::Delta`]. Called often; the
    /// channel joins what comes faster than the platform allows.
    ///
    /// # Errors
    /// Why it could not be shown.
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError>;

    /// The stream ended: `end` is a [`nanobot_types::OutboundKind::StreamEnd`].
    ///
    /// # Errors
    /// Why the last of it could not be shown.
    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError>;

    /// No reply will complete the stream: takes away what is shown of it. `message` names the chat.
    /// The stream may have been [closed](Self::close).
    ///
    /// # Errors
    /// Why it could not be taken away.
    async fn withdraw(
        &self,
        stream: &StreamId,
        message: &OutboundMessage,
    ) -> Result<(), ChannelError>;
}

/// Tells programs at the other end that a turn is over, also when it said nothing.
#[async_trait]
pub trait TurnEnds: Send + Sync {
    /// A turn is over: `end` is a [`nanobot_types::OutboundKind::TurnEnd`]. It may be lost.
    ///
    /// # Errors
    /// Why it could not be told; logged and forgotten.
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError>;
}

/// Asks the platform whether the credentials work, for the operator.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Who the platform says we are (`@bot`), asked by a request that changes nothing and takes
    /// no part in receiving. Works also while [`crate::Channel::run`] is not running.
    ///
    /// # Errors
    /// Why the platform cannot be used.
    async fn probe(&self) -> Result<String, ChannelError>;
}

/// The typing indicator.
#[async_trait]
pub trait Typing: Send + Sync {
    /// How long one call of [`Typing::show`] is visible.
    fn lasts(&self) -> Duration;

    /// Shows that the assistant is at work.
    ///
    /// # Errors
    /// Why it could not be shown; logged and forgotten.
    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError>;
}
