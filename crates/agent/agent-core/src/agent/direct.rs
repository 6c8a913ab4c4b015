//! Turns for a program that calls the agent directly, without a bus or a channel.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_session::MessageEntry;
use nanobot_types::{
    ChannelName, ChatId, ChatKind, ChatMessage, DeliveryContext, Map, MediaRef, Origin, SenderId,
    SessionKey, TraceId, UserMessage,
};
use tokio_util::sync::CancellationToken;

use super::window::ObserverNotifier;
use super::{Agent, TurnReport, TurnRequest};
use crate::engine::{KeptMessage, Steering, TurnFacts, keep_long_message};
use crate::{AgentError, Observer, Signal};

/// A message of a program, or of a person at a terminal.
pub struct DirectRequest {
    /// The text.
    pub content: String,
    /// Attached files.
    pub media: Vec<MediaRef>,
    /// The session.
    pub session: SessionKey,
    /// The channel that is shown to the model.
    pub channel: ChannelName,
    /// The chat on that channel.
    pub chat_id: ChatId,
    /// The sender, if the message has one.
    pub sender: Option<SenderId>,
    /// The kind of chat, if it is known.
    pub chat: Option<ChatKind>,
    /// The origin of the message.
    pub origin: Origin,
    /// Receives the turn's signals.
    pub observer: Arc<dyn Observer>,
    /// Fires to stop the turn.
    pub cancel: CancellationToken,
}

impl DirectRequest {
    /// Creates a message in the session `cli:direct`, without an observer.
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

    /// Sets the session.
    #[must_use]
    pub fn in_session(mut self, session: impl Into<SessionKey>) -> Self {
        self.session = session.into();
        self
    }

    /// Sets the observer.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }
}

/// No steering: no messages arrive while the turn runs.
pub(crate) struct NoSteering;

#[async_trait]
impl Steering for NoSteering {
    async fn take(&mut self) -> Vec<MessageEntry> {
        Vec::new()
    }
}

impl Agent {
    /// Returns the text of a message as it is recorded and sent. A person's long message is kept in
    /// a file. If that fails, the message stays as it is: it is sent as far as it fits.
    pub(crate) async fn fitting_text(
        &self,
        text: String,
        origin: &Origin,
    ) -> (String, Option<KeptMessage>) {
        let Some(folder) = &self.settings.results_folder else {
            return (text, None);
        };
        if *origin != Origin::User {
            return (text, None);
        }
        match keep_long_message(folder, &text, self.settings.options.token_budget).await {
            Ok(Some(kept)) => (kept.text.clone(), Some(kept)),
            Ok(None) => (text, None),
            Err(error) => {
                tracing::warn!(%error, "could not keep a long message in a file");
                (text, None)
            }
        }
    }

    /// Runs one turn and returns its end. If the conversation has outgrown the model's window, it
    /// is then summarised in the background; [`Agent::shut_down`] waits for that.
    ///
    /// # Errors
    /// See [`Agent::run_turn`].
    pub async fn process_direct(&self, request: DirectRequest) -> Result<TurnReport, AgentError> {
        let now = chrono::Local::now().fixed_offset();
        let runtime = self
            .attached_text(
                &request.content,
                &request.origin,
                &now,
                &request.channel,
                &request.chat_id,
            )
            .await;
        let (content, kept) = self.fitting_text(request.content, &request.origin).await;
        let user = UserMessage {
            content: content.into(),
            media: request.media,
        };
        let mut entry = MessageEntry {
            runtime: Some(runtime),
            at: now,
            ..MessageEntry::new(ChatMessage::User(user))
        };
        if let Some(kept) = kept {
            kept.mark(&mut entry.extra);
            request.observer.signal(Signal::Notice(kept.notice()));
        }
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
        self.turn_published(&session, Arc::new(ObserverNotifier(observer)));
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
