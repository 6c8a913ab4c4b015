//! The assistant at a terminal: a conversation over an in-process bus, or one question.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{AgentLoop, DirectRequest, LoopSettings, Outbox, OutboxError, Signal};
use nanobot_bus::{Bus, EventFeed, MemoryBus, Settle, Subscription};
use nanobot_config::Config;
use nanobot_session::TurnOutcome;
use nanobot_types::{ChannelName, ChatId, InboundMessage, OutboundKind, OutboundMessage, SenderId, SessionKey};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assistant::Assistant;
use crate::{FirstVisit, ModelChoice, RuntimeError, model};

/// The channel of sessions without one of their own.
const CLI: &str = "cli";

/// Which conversation, with which model.
#[derive(Clone, Debug)]
pub struct TerminalOptions {
    /// The session, as `channel:chat`; a name without a colon is a chat of `cli`.
    pub session: String,
    /// Take the demo model whatever is configured.
    pub demo: bool,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        Self { session: "cli:direct".to_owned(), demo: false }
    }
}

/// Something to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    /// A piece of a reply as it is written.
    Delta(String),
    /// A run of pieces ended.
    StreamEnd {
        /// Tools run now and another run follows.
        resuming: bool,
    },
    /// A thought or a notice on the way.
    Progress(String),
    /// Which tools run.
    ToolHint(String),
    /// A whole reply.
    Reply {
        /// Its Markdown.
        text: String,
        /// Its pieces were shown before.
        streamed: bool,
        /// It is what was asked for, not the report of a failure.
        ok: bool,
    },
}

/// The channel and chat of a session.
fn place(session: &str) -> (ChannelName, ChatId) {
    match session.split_once(':') {
        Some((channel, chat)) => (channel.into(), chat.into()),
        None => (CLI.into(), session.into()),
    }
}

/// A conversation at a terminal.
#[derive(Debug)]
pub struct Terminal {
    bus: Arc<MemoryBus>,
    channel: ChannelName,
    chat: ChatId,
    replies: Subscription<OutboundMessage>,
    model: ModelChoice,
    created: Vec<PathBuf>,
    first_visit: Option<FirstVisit>,
    cancel: CancellationToken,
    running: JoinHandle<()>,
}

impl Terminal {
    /// Starts the assistant for one conversation.
    ///
    /// # Errors
    /// [`RuntimeError`] when the configuration, the workspace or the model cannot be used.
    pub async fn start(config: &Config, options: TerminalOptions) -> Result<Self, RuntimeError> {
        let first_visit = FirstVisit::pay(config).await?;
        let (channel, chat) = place(&options.session);
        let bus = Arc::new(MemoryBus::new());
        let shared: Arc<dyn Bus> = bus.clone();
        let outbox = Arc::new(TerminalOutbox { bus: shared.clone(), channel: channel.clone() });
        let model = model::choose(config, options.demo).await?;
        let assistant = Assistant::build(config, model, outbox, EventFeed::new())?;
        let replies = bus.outbound(&channel).await.map_err(nanobot_agent_core::AgentError::from)?;
        let agent_loop = AgentLoop::new(assistant.agent, shared, LoopSettings::default());
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let running = TaskTracker::new().spawn(async move {
            if let Err(error) = agent_loop.run(stop).await {
                tracing::error!(%error, "the assistant ended");
            }
        });
        Ok(Self {
            bus,
            channel,
            chat,
            replies,
            model: assistant.model,
            created: assistant.created,
            first_visit,
            cancel,
            running,
        })
    }

    /// Who answers.
    #[must_use]
    pub fn model(&self) -> &ModelChoice {
        &self.model
    }

    /// Files that were made in the workspace.
    #[must_use]
    pub fn created(&self) -> &[PathBuf] {
        &self.created
    }

    /// What was found in a home of the Python program, on the first visit.
    #[must_use]
    pub fn first_visit(&self) -> Option<&FirstVisit> {
        self.first_visit.as_ref()
    }

    /// Says something: a message or a command, also while a turn runs.
    ///
    /// # Errors
    /// [`RuntimeError::Agent`] when too many messages wait.
    pub async fn say(&self, text: &str) -> Result<(), RuntimeError> {
        let sender = SenderId::from("user");
        let message = InboundMessage::text(self.channel.clone(), sender, self.chat.clone(), text);
        self.bus.publish_inbound(message).await.map_err(nanobot_agent_core::AgentError::from)?;
        Ok(())
    }

    /// The next thing to show; `None` after the assistant ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<TerminalEvent> {
        loop {
            let delivery = self.replies.next().await?;
            if delivery.is_durable()
                && let Err(error) = delivery.settle(Settle::Ack).await
            {
                tracing::error!(%error, "a shown reply could not be settled");
            }
            let message = &delivery.message;
            if message.chat_id == self.chat
                && let Some(event) = event_of(message)
            {
                return Some(event);
            }
        }
    }

    /// Ends the conversation: the running turn has its grace, then it is stopped with its steps
    /// kept.
    pub async fn shut_down(self) {
        self.cancel.cancel();
        if let Err(error) = self.running.await {
            tracing::error!(%error, "the assistant ended badly");
        }
    }
}

fn event_of(message: &OutboundMessage) -> Option<TerminalEvent> {
    let text = message.content.clone();
    Some(match &message.kind {
        OutboundKind::Delta { .. } => TerminalEvent::Delta(text),
        OutboundKind::StreamEnd { resuming, .. } => TerminalEvent::StreamEnd { resuming: *resuming },
        OutboundKind::Progress => TerminalEvent::Progress(text),
        OutboundKind::ToolHint => TerminalEvent::ToolHint(text),
        OutboundKind::Final => TerminalEvent::Reply { text, streamed: message.completes.is_some(), ok: true },
        OutboundKind::Notice => TerminalEvent::Reply { text, streamed: false, ok: false },
    })
}

/// Takes messages to the terminal's own channel; nobody delivers to others here.
#[derive(Debug)]
struct TerminalOutbox {
    bus: Arc<dyn Bus>,
    channel: ChannelName,
}

#[async_trait]
impl Outbox for TerminalOutbox {
    async fn put(&self, message: OutboundMessage) -> Result<(), OutboxError> {
        if message.channel != self.channel {
            return Err(elsewhere(&message.channel));
        }
        self.bus.publish_outbound(message).await?;
        Ok(())
    }
}

fn elsewhere(channel: &ChannelName) -> OutboxError {
    OutboxError::Unreachable(format!("the channel {channel} is not connected here; it is while `nanobot gateway` runs"))
}

/// The answer to one question.
#[derive(Debug)]
pub struct Answer {
    /// What to show; `None` when it was shown by the `message` tool.
    pub text: Option<String>,
    /// Whether it is an answer, not the report of a failure.
    pub ok: bool,
    /// Whether its pieces were shown before.
    pub streamed: bool,
    /// What was found in a home of the Python program, on the first visit.
    pub first_visit: Option<FirstVisit>,
}

/// Who is told what happens while a question is answered.
type OnEvent = Arc<dyn Fn(TerminalEvent) + Send + Sync>;

struct DirectOutbox {
    channel: ChannelName,
    chat: ChatId,
    on_event: OnEvent,
}

impl std::fmt::Debug for DirectOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectOutbox").field("channel", &self.channel).finish_non_exhaustive()
    }
}

#[async_trait]
impl Outbox for DirectOutbox {
    async fn put(&self, message: OutboundMessage) -> Result<(), OutboxError> {
        if message.channel != self.channel || message.chat_id != self.chat {
            return Err(elsewhere(&message.channel));
        }
        if let Some(event) = event_of(&message) {
            (self.on_event)(event);
        }
        Ok(())
    }
}

/// Asks one question. Runs beside a gateway on the same home: both append to the same sessions.
/// `on_model` is told who answers before anything is asked.
///
/// # Errors
/// As [`Terminal::start`].
pub async fn ask(
    config: &Config,
    options: TerminalOptions,
    text: &str,
    on_model: impl FnOnce(&ModelChoice),
    on_event: impl Fn(TerminalEvent) + Send + Sync + 'static,
) -> Result<Answer, RuntimeError> {
    let first_visit = FirstVisit::pay(config).await?;
    let (channel, chat_id) = place(&options.session);
    let on_event: OnEvent = Arc::new(on_event);
    let outbox = DirectOutbox { channel: channel.clone(), chat: chat_id.clone(), on_event: on_event.clone() };
    let model = model::choose(config, options.demo).await?;
    on_model(&model);
    let assistant = Assistant::build(config, model, Arc::new(outbox), EventFeed::new())?;
    let observer = Arc::new(move |signal: Signal| {
        on_event(match signal {
            Signal::Delta { text, .. } => TerminalEvent::Delta(text),
            Signal::StreamEnd { resuming, .. } => TerminalEvent::StreamEnd { resuming },
            Signal::Thought(text) | Signal::Notice(text) => TerminalEvent::Progress(text),
            Signal::ToolHint(text) => TerminalEvent::ToolHint(text),
        });
    });
    let session = SessionKey::of_chat(&channel, &chat_id);
    let request = DirectRequest { channel, chat_id, ..DirectRequest::new(text) };
    let report = assistant.agent.process_direct(request.in_session(session).watched_by(observer)).await?;
    Ok(Answer {
        text: report.visible,
        ok: matches!(report.ended, TurnOutcome::Replied | TurnOutcome::Suppressed),
        streamed: report.stream.is_some(),
        first_visit,
    })
}
