//! What a tool knows about the turn it runs in: facts, never services.

use nanobot_types::{
    CallId, ChannelName, ChatId, DeliveryContext, Map, MessageId, Origin, SenderId, SessionKey,
    TraceId,
};
use tokio_util::sync::CancellationToken;

/// The circumstances of one call. Made anew for every call, so that two turns never share one.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The session of the turn.
    pub session: SessionKey,
    /// The turn.
    pub trace: TraceId,
    /// The call.
    pub call: CallId,
    /// The place of this call among all calls of its turn, from 1; the same after a restart.
    pub position: u32,
    /// Where the turn's message came from.
    pub channel: ChannelName,
    /// The chat it came from.
    pub chat_id: ChatId,
    /// The message, in the platform's spelling.
    pub message_id: Option<MessageId>,
    /// Who sent it, by identity from platform metadata.
    pub sender: Option<SenderId>,
    /// Where a reply belongs.
    pub delivery: DeliveryContext,
    /// The message's metadata.
    pub metadata: Map,
    /// Who or what made the message.
    pub origin: Origin,
    /// Characters of a result that the model reads; the rest of a longer one is cut off.
    pub max_result_chars: usize,
    /// Fires when the turn is stopped.
    pub cancel: CancellationToken,
}

impl ToolContext {
    /// A context for a call outside any turn, for programs and tests that run a tool by hand.
    pub fn detached(session: impl Into<SessionKey>) -> Self {
        Self {
            session: session.into(),
            trace: TraceId::from("detached"),
            call: CallId::from("detached"),
            position: 1,
            channel: ChannelName::from("cli"),
            chat_id: ChatId::from("direct"),
            message_id: None,
            sender: None,
            delivery: DeliveryContext::default(),
            metadata: Map::new(),
            origin: Origin::User,
            max_result_chars: usize::MAX,
            cancel: CancellationToken::new(),
        }
    }
}
