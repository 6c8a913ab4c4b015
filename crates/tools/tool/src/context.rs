//! Facts about the turn that a tool runs in. It carries facts only, never services.

use nanobot_types::{
    CallId, ChannelName, ChatId, DeliveryContext, Map, MessageId, Origin, SenderId, SessionKey,
    TraceId,
};
use tokio_util::sync::CancellationToken;

/// Context of one tool call. Created anew for every call, so two turns never share one.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The session of the turn.
    pub session: SessionKey,
    /// The turn.
    pub trace: TraceId,
    /// The call.
    pub call: CallId,
    /// Position of this call among all calls of its turn, from 1; the same after a restart.
    pub position: u32,
    /// Channel of the turn's message.
    pub channel: ChannelName,
    /// Chat of the message.
    pub chat_id: ChatId,
    /// Id of the message, as the platform writes it.
    pub message_id: Option<MessageId>,
    /// Sender of the message, by the identity in platform metadata.
    pub sender: Option<SenderId>,
    /// Place in the chat where a reply belongs.
    pub delivery: DeliveryContext,
    /// Metadata of the message.
    pub metadata: Map,
    /// Origin of the message.
    pub origin: Origin,
    /// Origin of the text by strangers that the turn read before this call, if it did.
    pub untrusted: Option<String>,
    /// `true` if a person has confirmed this call.
    pub is_confirmed: bool,
    /// Number of characters of a result that the model reads; the rest is truncated.
    pub max_result_chars: usize,
    /// Cancelled when the turn is stopped.
    pub cancel: CancellationToken,
}

impl ToolContext {
    /// Creates a context for a call outside of any turn, for programs and tests that run a tool
    /// directly.
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
            untrusted: None,
            is_confirmed: false,
            max_result_chars: usize::MAX,
            cancel: CancellationToken::new(),
        }
    }
}
