//! The assistant of a terminal without a gateway.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{
    AgentError, AgentLoop, BusSpawner, LoopSettings, Outbox, OutboxError, Spawner, SubagentInfo,
    Subagents,
};
use nanobot_bus::{
    Bus, EventFeed, Ledger as _, LedgerFilter, MemoryBus, Queue, SettleOutcome, Subscription,
};
use nanobot_control::{TERMINAL_CHANNEL, TerminalEvent};
use nanobot_state::SqliteSpendLedger;
use nanobot_types::{
    ChannelName, ChatId, ChatKind, InboundMessage, MediaRef, OutboundKey, OutboundMessage,
    SenderId, SessionKey, TraceId,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::jobs::{self, PromptJobs};
use super::{TerminalOptions, split_session};
use crate::assembly::access::HomeAccess;
use crate::assembly::assistant::Assistant;
use crate::assembly::extensions::Observation;
use crate::assembly::mcp::Mcp;
use crate::assembly::secrets::secrets;
use crate::assembly::spending::{self, ChargedModel};
use crate::assembly::{memory, model};
use crate::gateway::commands;
use crate::gateway::restart::Restart;
use crate::{FirstRun, ModelChoice, Runtime, RuntimeError, is_command};

/// Maximum number of unfinished messages that are looked at.
const MAX_OPEN: usize = 100;

/// An assistant of this process, over an in-process bus.
#[derive(Debug)]
pub(super) struct LocalAssistant {
    bus: Arc<MemoryBus>,
    channel: ChannelName,
    chat: ChatId,
    replies: Subscription<OutboundMessage>,
    subagents: Option<Arc<Subagents>>,
    pub(super) restart: Restart,
    cancel: CancellationToken,
    running: JoinHandle<()>,
    observation: Observation,
    jobs: Option<PromptJobs>,
    mcp: Mcp,
    ledger: Arc<SqliteSpendLedger>,
}

/// A started assistant, and what a user is told about it.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) assistant: LocalAssistant,
    pub(super) model: ModelChoice,
    /// The files that were created in the workspace.
    pub(super) created: Vec<PathBuf>,
    pub(super) first_run: Option<FirstRun>,
}

impl LocalAssistant {
    /// Starts an assistant. With `is_prompt`, jobs that write to the terminal fire here.
    ///
    /// # Errors
    /// Returns the errors of [`Terminal::start`](super::Terminal::start).
    pub(super) async fn start(
        runtime: &Runtime,
        options: &TerminalOptions,
        is_prompt: bool,
    ) -> Result<Started, RuntimeError> {
        let config = runtime.config();
        let first_run = FirstRun::perform(config).await?;
        let restart = Restart::default();
        let (channel, chat) = split_session(&options.session);
        let bus = Arc::new(MemoryBus::new());
        let shared: Arc<dyn Bus> = bus.clone();
        let outbox = Arc::new(TerminalOutbox {
            bus: shared.clone(),
            channel: channel.clone(),
        });
        let model = model::choose(runtime, options.demo).await?;
        let tasks = shared.clone();
        let spawner = |subagents| Arc::new(BusSpawner::new(tasks, subagents)) as Arc<dyn Spawner>;
        memory::roll_up_without_gateway(config).await?;
        let events = EventFeed::new();
        let (host, notices) = jobs::host(is_prompt);
        let ledger = spending::open(config)?;
        let assistant = Assistant::build(
            runtime,
            ChargedModel {
                model,
                ledger: ledger.clone(),
            },
            outbox,
            spawner,
            events.clone(),
            secrets(config),
            host.clone(),
        )?;
        let replies = bus.outbound(&channel).await.map_err(AgentError::from)?;
        let subagents = assistant.agent.subagents().cloned();
        let jobs = notices
            .map(|notices| PromptJobs::start(config, assistant.agent.clone(), &bus, host, notices))
            .transpose()?;
        let agent_loop = AgentLoop::with_commands(
            assistant.agent,
            shared,
            bus.clone(),
            LoopSettings::default(),
            commands::table(&restart, HomeAccess::of(runtime), ledger.clone())?,
            None,
        );
        let cancel = CancellationToken::new();
        let observation = runtime.shared_extensions().observe(&events);
        let stop = cancel.clone();
        let running = TaskTracker::new().spawn(async move {
            if let Err(error) = agent_loop.run(stop).await {
                tracing::error!(%error, "the assistant ended");
            }
        });
        let started = Self {
            bus,
            channel,
            chat,
            replies,
            subagents,
            restart,
            cancel,
            running,
            observation,
            jobs,
            mcp: assistant.mcp,
            ledger,
        };
        Ok(Started {
            assistant: started,
            model: assistant.model,
            created: assistant.created,
            first_run,
        })
    }

    /// Returns the unfinished subagents of the conversation, in the order of arrival.
    pub(super) fn subagents(&self) -> Vec<SubagentInfo> {
        let session = SessionKey::of_chat(&self.channel, &self.chat);
        let subagents = self.subagents.as_ref();
        subagents.map_or_else(Vec::new, |subagents| subagents.of_session(&session))
    }

    /// Returns the number of unfinished subagents of the conversation.
    pub(super) fn unfinished(&self) -> u32 {
        u32::try_from(self.subagents().len()).unwrap_or(u32::MAX)
    }

    /// Returns `true` if subagents, messages that wait, or jobs are unfinished; commands do not count.
    pub(super) async fn has_unfinished_work(&self) -> bool {
        if self.unfinished() > 0 {
            return true;
        }
        let open = self
            .bus
            .list(Queue::Inbound, LedgerFilter::Open, MAX_OPEN)
            .await;
        match open {
            Ok(entries) => entries
                .iter()
                .filter_map(|entry| entry.inbound.as_ref())
                .any(|message| !is_command(&message.content)),
            Err(error) => {
                tracing::warn!(%error, "cannot list the unfinished messages");
                // Unknown work must not be stopped unasked.
                true
            }
        }
    }

    /// Sends a message or a command, and returns its turn.
    pub(super) async fn send(
        &self,
        text: &str,
        media: Vec<MediaRef>,
    ) -> Result<TraceId, RuntimeError> {
        let sender = SenderId::from("user");
        let mut message =
            InboundMessage::text(self.channel.clone(), sender, self.chat.clone(), text);
        // The audience of another channel's session is not known here.
        message.chat = (self.channel.as_str() == TERMINAL_CHANNEL).then_some(ChatKind::Direct);
        message.media = media;
        message.id = Some(Uuid::new_v4().to_string().into());
        let turn = message
            .journal_id()
            .map_or_else(|| TraceId::from(""), |id| TraceId::from(id.as_str()));
        self.bus
            .publish_inbound(message)
            .await
            .map_err(AgentError::from)?;
        Ok(turn)
    }

    /// Ends the assistant. The running turn has a grace period.
    pub(super) async fn end(self) {
        self.cancel.cancel();
        if let Err(error) = self.running.await {
            tracing::error!(%error, "the assistant failed");
        }
        if let Some(jobs) = self.jobs {
            jobs.end(&self.bus).await;
        }
        self.mcp.close().await;
        self.observation.finish().await;
        self.ledger.close().await;
    }

    /// Returns the next event and the key of its message, if it is one of the conversation; `None`
    /// after the assistant ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<(TerminalEvent, Option<OutboundKey>)> {
        loop {
            let delivery = tokio::select! {
                biased;
                delivery = self.replies.next() => delivery?,
                notice = jobs::next_notice(&mut self.jobs) => {
                    return Some((TerminalEvent::News(notice), None));
                }
            };
            if delivery.is_durable()
                && let Err(error) = delivery.settle(SettleOutcome::Ack).await
            {
                tracing::error!(%error, "could not settle a reply that was shown");
            }
            if self.jobs.is_some() && jobs::is_of_job(&delivery.message) {
                if delivery.is_durable() {
                    let key = delivery.message.key.clone();
                    if let Some(event) = jobs::labelled(delivery.message.into(), Some(&key)) {
                        return Some((event, None));
                    }
                }
            } else if delivery.message.chat_id == self.chat {
                let key = delivery.message.key.clone();
                return Some((delivery.message.into(), Some(key)));
            }
        }
    }
}

/// Accepts messages for the terminal's own channel; there is no delivery to others here.
#[derive(Debug)]
struct TerminalOutbox {
    bus: Arc<dyn Bus>,
    channel: ChannelName,
}

#[async_trait]
impl Outbox for TerminalOutbox {
    async fn enqueue(&self, message: OutboundMessage) -> Result<(), OutboxError> {
        if message.channel != self.channel {
            return Err(not_connected(&message.channel));
        }
        self.bus.publish_outbound(message).await?;
        Ok(())
    }
}

/// Returns the error for a message to a channel that only a gateway reaches.
pub(super) fn not_connected(channel: &ChannelName) -> OutboxError {
    OutboxError::Unreachable(format!(
        "the channel {channel} is not connected here; it is while `nanobot gateway` runs"
    ))
}
