//! The assistant at a terminal: a conversation, or one question.
//!
//! Decision: where a gateway has the home, both go through its socket; elsewhere a conversation
//! runs over an in-process bus, and a question needs none.

mod ask;
mod gateway;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{AgentLoop, LoopSettings, Outbox, OutboxError};
use nanobot_bus::{Bus, EventFeed, MemoryBus, Settle, Subscription};
use nanobot_config::Config;
use nanobot_control::{Conversation, TERMINAL_CHANNEL, TerminalEvent, Told};
use nanobot_types::{ChannelName, ChatId, InboundMessage, OutboundMessage, SenderId};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use ask::{Answer, ask};

use crate::assistant::Assistant;
use crate::{FirstVisit, ModelChoice, RuntimeError, model};

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

/// The channel and chat of a session.
fn place(session: &str) -> (ChannelName, ChatId) {
    match session.split_once(':') {
        Some((channel, chat)) => (channel.into(), chat.into()),
        None => (TERMINAL_CHANNEL.into(), session.into()),
    }
}

/// A conversation at a terminal.
#[derive(Debug)]
pub struct Terminal {
    talk: Talk,
    model: ModelChoice,
    created: Vec<PathBuf>,
    first_visit: Option<FirstVisit>,
}

/// With whom.
#[derive(Debug)]
enum Talk {
    /// An assistant of this process.
    Own(OwnTalk),
    /// A gateway.
    Gateway(Conversation),
}

#[derive(Debug)]
struct OwnTalk {
    bus: Arc<MemoryBus>,
    channel: ChannelName,
    chat: ChatId,
    replies: Subscription<OutboundMessage>,
    cancel: CancellationToken,
    running: JoinHandle<()>,
}

impl Terminal {
    /// Starts a conversation: with the gateway that has the home, or with an assistant of this
    /// process where none runs.
    ///
    /// # Errors
    /// [`RuntimeError`] when the configuration, the workspace or the model cannot be used.
    pub async fn start(config: &Config, options: TerminalOptions) -> Result<Self, RuntimeError> {
        if let Some(client) = gateway::of(config, &options).await {
            let talk = Talk::Gateway(client.converse(options.session).await?);
            let model = ModelChoice::of_gateway(client.about().model.clone());
            return Ok(Self { talk, model, created: Vec::new(), first_visit: None });
        }
        let first_visit = FirstVisit::pay(config).await?;
        let (channel, chat) = place(&options.session);
        let bus = Arc::new(MemoryBus::new());
        let shared: Arc<dyn Bus> = bus.clone();
        let outbox = Arc::new(TerminalOutbox { bus: shared.clone(), channel: channel.clone() });
        let model = model::choose(config, options.demo).await?;
        let assistant = Assistant::build(config, model, outbox, EventFeed::new())?;
        let replies = bus.outbound(&channel).await.map_err(nanobot_agent_core::AgentError::from)?;
        let agent_loop = AgentLoop::new(assistant.agent, shared, bus.clone(), LoopSettings::default());
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let running = TaskTracker::new().spawn(async move {
            if let Err(error) = agent_loop.run(stop).await {
                tracing::error!(%error, "the assistant ended");
            }
        });
        let talk = Talk::Own(OwnTalk { bus, channel, chat, replies, cancel, running });
        Ok(Self { talk, model: assistant.model, created: assistant.created, first_visit })
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
    /// [`RuntimeError::Agent`] when too many messages wait, [`RuntimeError::Control`] when the
    /// gateway is gone.
    pub async fn say(&mut self, text: &str) -> Result<(), RuntimeError> {
        match &mut self.talk {
            Talk::Own(own) => own.say(text).await,
            Talk::Gateway(conversation) => Ok(conversation.say(text).await?),
        }
    }

    /// The next thing to show; `None` after the assistant ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<TerminalEvent> {
        match &mut self.talk {
            Talk::Own(own) => own.next().await,
            Talk::Gateway(conversation) => loop {
                match conversation.next().await {
                    Ok(Told::Event { event, .. }) => return Some(event),
                    Ok(Told::TurnFinished) => {}
                    Err(error) => {
                        tracing::error!(error = &error as &dyn std::error::Error, "the gateway is gone");
                        return None;
                    }
                }
            },
        }
    }

    /// Ends the conversation: the running turn has its grace, then it is stopped with its steps
    /// kept. A gateway stops a turn that nobody waits for any more.
    pub async fn shut_down(self) {
        if let Talk::Own(own) = self.talk {
            own.cancel.cancel();
            if let Err(error) = own.running.await {
                tracing::error!(%error, "the assistant ended badly");
            }
        }
    }
}

impl OwnTalk {
    async fn say(&self, text: &str) -> Result<(), RuntimeError> {
        let sender = SenderId::from("user");
        let message = InboundMessage::text(self.channel.clone(), sender, self.chat.clone(), text);
        self.bus.publish_inbound(message).await.map_err(nanobot_agent_core::AgentError::from)?;
        Ok(())
    }

    async fn next(&mut self) -> Option<TerminalEvent> {
        loop {
            let delivery = self.replies.next().await?;
            if delivery.is_durable()
                && let Err(error) = delivery.settle(Settle::Ack).await
            {
                tracing::error!(%error, "a shown reply could not be settled");
            }
            if delivery.message.chat_id == self.chat {
                return Some(delivery.message.into());
            }
        }
    }
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
