//! A turn for a program that holds the agent in its hand: no bus, no channel.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_session::MessageEntry;
use nanobot_types::{
    ChannelName, ChatId, ChatKind, ChatMessage, DeliveryContext, Map, MediaRef, Origin, SenderId,
    SessionKey, TraceId, UserMessage,
};
use tokio_util::sync::CancellationToken;

use super::keeping::ObserverTeller;
use super::{Agent, TurnReport, TurnRequest};
use crate::engine::{Steering, TurnFacts};
use crate::{AgentError, Observer, Signal};

/// A message of a program, or of a person at a terminal.
pub struct DirectRequest {
    /// What is said.
    pub content: String,
    /// Files that go with it.
    pub media: Vec<MediaRef>,
    /// The conversation.
    pub session: SessionKey,
    /// Where the model is told it comes from.
    pub channel: ChannelName,
    /// The chat there.
    pub chat_id: ChatId,
    /// Who said it, where somebody did.
    pub sender: Option<SenderId>,
    /// Who else hears it, where that is known.
    pub chat: Option<ChatKind>,
    /// Who made it.
    pub origin: Origin,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// Fires to stop the turn.
    pub cancel: CancellationToken,
}

impl DirectRequest {
    /// A message in the session `cli:direct` that nobody watches.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            media: Vec::new(),
            session: SessionKey::from("cli:direct"),
            channel: ChannelName::from("cli"),
            chat_id: ChatId::from("direct"),
            sender: None,
            chat: None,
            origin: Origin::User,
            observer: Arc::new(|_: Signal| {}),
            cancel: CancellationToken::new(),
        }
    }

    /// The same in another session.
    #[must_use]
    pub fn in_session(mut self, session: impl Into<SessionKey>) -> Self {
        self.session = session.into();
        self
    }

    /// The same, watched.
    #[must_use]
    pub fn watched_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }
}

/// For a turn that nobody talks to while it runs.
pub(crate) struct NoSteering;

#[async_trait]
impl Steering for NoSteering {
    async fn take(&mut self) -> Vec<MessageEntry> {
        Vec::new()
    }
}

impl Agent {
    /// Runs one turn and returns its end. What has outgrown the model's window is summarised in the
    /// background then; [`Agent::shut_down`] waits for that.
    ///
    /// # Errors
    /// As [`Agent::run_turn`].
    pub async fn process_direct(&self, request: DirectRequest) -> Result<TurnReport, AgentError> {
        let now = chrono::Local::now().fixed_offset();
        let runtime = self
            .beside(
                &request.content,
                &request.origin,
                &now,
                &request.channel,
                &request.chat_id,
            )
            .await;
        let user = UserMessage {
            content: request.content.into(),
            media: request.media,
        };
        let entry = MessageEntry {
            runtime: Some(runtime),
            at: now,
            ..MessageEntry::new(ChatMessage::User(user))
        };
        let facts = TurnFacts {
            session: request.session,
            channel: request.channel,
            chat_id: request.chat_id,
            message_id: None,
            sender: request.sender,
            chat: request.chat,
            delivery: DeliveryContext::default(),
            metadata: Map::new(),
            origin: request.origin,
        };
        let (session, observer) = (facts.session.clone(), request.observer.clone());
        let mut steering = NoSteering;
        let turn = self.run_turn(TurnRequest {
            facts,
            entry,
            trace: TraceId::from(uuid::Uuid::new_v4().to_string()),
            observer: request.observer,
            cancel: request.cancel,
            interrupt: CancellationToken::new(),
            steering: &mut steering,
        });
        let report = turn.await?;
        self.turn_published(&session, Arc::new(ObserverTeller(observer)));
        Ok(report)
    }
}

impl std::fmt::Debug for DirectRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectRequest")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
