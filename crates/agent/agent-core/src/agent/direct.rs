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
use crate::engine::{Steering, TurnFacts, keep_long_message, mark_kept, mark_untrusted};
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
    /// The origin of the text, if strangers may have written it.
    pub untrusted: Option<String>,
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
            untrusted: None,
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

/// The text of a message as it is recorded and sent.
pub(crate) struct FittingText {
    pub(crate) text: String,
    /// Length of the whole message in characters, if it is kept in a file.
    pub(crate) kept: Option<usize>,
    /// Information for the person about a message that is too long.
    pub(crate) notice: Option<String>,
}

impl FittingText {
    fn unchanged(text: String) -> Self {
        Self {
            text,
            kept: None,
            notice: None,
        }
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
    /// a file. If that fails, the message stays as it is: it is sent as far as it fits, and the
    /// notice says so.
    pub(crate) async fn fitting_text(&self, text: String, origin: &Origin) -> FittingText {
        let Some(folder) = &self.settings.results_folder else {
            return FittingText::unchanged(text);
        };
        if *origin != Origin::User {
            return FittingText::unchanged(text);
        }
        match keep_long_message(folder, &text, self.default_budget().await).await {
            Ok(Some(kept)) => FittingText {
                notice: Some(kept.notice()),
                kept: Some(kept.characters),
                text: kept.text,
            },
            Ok(None) => FittingText::unchanged(text),
            Err(error) => {
                tracing::warn!(%error, "could not keep a long message in a file");
                FittingText {
                    notice: Some(unkept_notice(&text, &error)),
                    ..FittingText::unchanged(text)
                }
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
        let fitting = self.fitting_text(request.content, &request.origin).await;
        let user = UserMessage {
            content: fitting.text.into(),
            media: request.media,
        };
        let mut entry = MessageEntry {
            runtime: Some(runtime),
            at: now,
            ..MessageEntry::new(ChatMessage::User(user))
        };
        if let Some(characters) = fitting.kept {
            mark_kept(characters, &mut entry.extra);
        }
        if let Some(origin) = &request.untrusted {
            mark_untrusted(origin, &mut entry.extra);
        }
        if let Some(notice) = fitting.notice {
            request.observer.signal(Signal::Notice(notice));
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

/// Returns the notice about a long message that the disk could not keep.
fn unkept_notice(text: &str, error: &std::io::Error) -> String {
    let characters = text.chars().count();
    format!(
        "The message is long ({characters} characters) and could not be kept in a file: {error}. If the model's \
         window cannot hold it, the model gets only a part."
    )
}

impl std::fmt::Debug for DirectRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectRequest")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
