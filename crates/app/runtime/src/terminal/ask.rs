//! One message and its answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_agent_core::{
    Agent, AgentError, DirectRequest, DirectSpawner, Outbox, OutboxError, Signal, Spawner,
};
use nanobot_bus::EventFeed;
use nanobot_control::{
    ControlClient, ControlConversation, ConversationEvent, TERMINAL_CHANNEL, TerminalEvent,
};
use nanobot_cron::JobHost;
use nanobot_session::TurnOutcome;
use nanobot_types::{
    ChannelName, ChatId, ChatKind, MediaRef, OutboundKind, OutboundMessage, SenderId, SessionKey,
    UNTRUSTED_KEY,
};

use super::local::not_connected;
use super::{Terminal, TerminalOptions, attachment, gateway, long, split_session};
use crate::assembly::assistant::Assistant;
use crate::assembly::memory;
use crate::assembly::model;
use crate::assembly::secrets::secrets;
use crate::assembly::spending::{self, ChargedModel};
use crate::{FirstRun, ModelChoice, Runtime, RuntimeError, is_command};

/// Maximum time to wait for the end of a turn after its answer. It comes with the answer, unless it
/// was lost.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// A message of a person at the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalMessage {
    /// The text, or a command.
    pub text: String,
    /// Files to attach.
    pub files: Vec<PathBuf>,
}

impl From<String> for TerminalMessage {
    fn from(text: String) -> Self {
        Self {
            text,
            files: Vec::new(),
        }
    }
}

impl From<&str> for TerminalMessage {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The answer to one message.
#[derive(Debug)]
pub struct TerminalReply {
    /// The text to show; `None` if it was already shown.
    pub text: Option<String>,
    /// `true` if it is an answer, `false` if it reports a failure.
    pub ok: bool,
    /// `true` if its pieces were already shown.
    pub streamed: bool,
}

/// Callback for the events while a question is answered.
type OnEvent = Arc<dyn Fn(TerminalEvent) + Send + Sync>;

struct DirectOutbox {
    channel: ChannelName,
    chat: ChatId,
    on_event: OnEvent,
}

impl std::fmt::Debug for DirectOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectOutbox")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Outbox for DirectOutbox {
    async fn enqueue(&self, message: OutboundMessage) -> Result<(), OutboxError> {
        if message.kind == OutboundKind::Question {
            let why =
                "a single message has no one to answer; start `nanobot agent` for a conversation";
            return Err(OutboxError::Unreachable(why.to_owned()));
        }
        if message.channel != self.channel || message.chat_id != self.chat {
            return Err(not_connected(&message.channel));
        }
        (self.on_event)(message.into());
        Ok(())
    }
}

/// Asks one question: the gateway that has the home, or an assistant of this process if none runs.
/// Before anything is asked, or written into the workspace, calls `on_start` with the model, and on
/// the first run also with the findings in a home of the Python program.
///
/// # Errors
/// Returns the errors of [`Terminal::start`](super::Terminal::start), and
/// [`RuntimeError::Attachment`] for a file that cannot be attached.
pub async fn ask(
    runtime: &Runtime,
    options: TerminalOptions,
    message: TerminalMessage,
    on_start: impl FnOnce(&ModelChoice, Option<&FirstRun>),
    on_event: impl Fn(TerminalEvent) + Send + Sync + 'static,
) -> Result<TerminalReply, RuntimeError> {
    let config = runtime.config();
    let TerminalMessage { mut text, files } = message;
    let gateway = gateway::of(config, &options).await?;
    let media = attachment::store(config, &files).await?;
    if let Some(client) = gateway {
        on_start(&ModelChoice::of_gateway(client.about().model.clone()), None);
        if let Some(kept) = long::for_gateway(config, &text).await? {
            on_event(TerminalEvent::News(kept.notice()));
            text = kept.text;
        }
        let message = (text.as_str(), media);
        return ask_gateway(&client, &options.session, message, on_event).await;
    }
    if is_command(&text) {
        return run_command(runtime, options, &text, on_start, on_event).await;
    }
    let first_run = FirstRun::perform(config).await?;
    let (channel, chat_id) = split_session(&options.session);
    let on_event: OnEvent = Arc::new(on_event);
    let outbox = DirectOutbox {
        channel: channel.clone(),
        chat: chat_id.clone(),
        on_event: on_event.clone(),
    };
    let model = model::choose(runtime, options.demo).await?;
    on_start(&model, first_run.as_ref());
    let mut helpers = None;
    let spawner = |subagents| {
        let direct = Arc::new(DirectSpawner::new(subagents));
        helpers = Some(direct.clone());
        direct as Arc<dyn Spawner>
    };
    memory::roll_up_without_gateway(config).await?;
    let events = EventFeed::new();
    let observation = runtime.shared_extensions().observe(&events);
    let ledger = spending::open(config)?;
    let assistant = Assistant::build(
        runtime,
        ChargedModel {
            model,
            ledger: ledger.clone(),
        },
        Arc::new(outbox),
        spawner,
        events.clone(),
        secrets(config),
        JobHost::Other,
    )?;
    let session = SessionKey::of_chat(&channel, &chat_id);
    let (sender, chat) = speaker(&channel);
    let request = DirectRequest {
        channel,
        chat_id,
        sender,
        chat,
        media,
        ..DirectRequest::new(text).in_session(session)
    };
    let question = LocalQuestion {
        agent: assistant.agent,
        helpers,
        on_event,
    };
    let answer = question.answer(request).await;
    assistant.mcp.close().await;
    observation.finish().await;
    ledger.close().await;
    answer
}

/// Returns the sender and the kind of chat: a direct chat with the user at the terminal. The
/// audience of another channel's session is not known here.
fn speaker(channel: &ChannelName) -> (Option<SenderId>, Option<ChatKind>) {
    let chat = (channel.as_str() == TERMINAL_CHANNEL).then_some(ChatKind::Direct);
    (Some(SenderId::from("user")), chat)
}

/// Gives a command to an assistant of this process. Commands belong to the agent loop, so it runs
/// for this one.
async fn run_command(
    runtime: &Runtime,
    options: TerminalOptions,
    command: &str,
    on_start: impl FnOnce(&ModelChoice, Option<&FirstRun>),
    on_event: impl Fn(TerminalEvent),
) -> Result<TerminalReply, RuntimeError> {
    let mut terminal = Terminal::start(runtime, options).await?;
    on_start(terminal.model(), terminal.first_run());
    terminal.send(command).await?;
    let mut answer = loop {
        match terminal.next().await {
            Some(TerminalEvent::Reply {
                text,
                streamed,
                ok,
                job: None,
            }) => {
                break TerminalReply {
                    text: Some(text),
                    ok,
                    streamed,
                };
            }
            Some(TerminalEvent::TurnEnd { .. }) => {
                break TerminalReply {
                    text: None,
                    ok: true,
                    streamed: false,
                };
            }
            Some(event) => on_event(event),
            None => return Err(AgentError::Interrupted.into()),
        }
    };
    if let Some(text) = answer.text.take() {
        // Show the answer before waiting for the end.
        on_event(TerminalEvent::Reply {
            text,
            streamed: answer.streamed,
            ok: answer.ok,
            job: None,
        });
    }
    terminal.shut_down().await;
    Ok(answer)
}

/// Answers a question with an assistant of this process.
struct LocalQuestion {
    agent: Arc<Agent>,
    helpers: Option<Arc<DirectSpawner>>,
    on_event: OnEvent,
}

impl LocalQuestion {
    /// Answers the request, then the results of its subagents. Returns the last answer; earlier
    /// ones are shown as they come.
    async fn answer(&self, request: DirectRequest) -> Result<TerminalReply, RuntimeError> {
        let (session, channel, chat) = (
            request.session.clone(),
            request.channel.clone(),
            request.chat_id.clone(),
        );
        self.agent.resume_summary(&session).await;
        let mut answer = self.turn(request).await?;
        while let Some(helpers) = self
            .helpers
            .as_ref()
            .filter(|helpers| helpers.has_more(&session))
        {
            if let Some(text) = answer.text.take() {
                (self.on_event)(TerminalEvent::Reply {
                    text,
                    streamed: answer.streamed,
                    ok: answer.ok,
                    job: None,
                });
            }
            let Some(result) = helpers.next_result(&session).await else {
                break;
            };
            let untrusted = result.metadata.get(UNTRUSTED_KEY);
            let untrusted = untrusted.and_then(|origin| origin.as_str().map(str::to_owned));
            let request = DirectRequest {
                channel: channel.clone(),
                chat_id: chat.clone(),
                origin: result.origin,
                untrusted,
                ..DirectRequest::new(result.content).in_session(session.clone())
            };
            let further = self.turn(request).await?;
            answer = TerminalReply {
                ok: answer.ok && further.ok,
                ..further
            };
        }
        // Pending summarisation is recorded in the session; the gateway or a later run does it.
        self.agent.shut_down(Duration::ZERO).await;
        Ok(answer)
    }

    async fn turn(&self, request: DirectRequest) -> Result<TerminalReply, RuntimeError> {
        let on_event = self.on_event.clone();
        let observer = Arc::new(move |signal: Signal| {
            on_event(match signal {
                Signal::Delta { text, .. } => TerminalEvent::Delta(text),
                Signal::StreamEnd { resuming, .. } => TerminalEvent::StreamEnd { resuming },
                Signal::Withdrawn { .. } => TerminalEvent::StreamEnd { resuming: true },
                Signal::Thought { text, .. } | Signal::Notice(text) => {
                    TerminalEvent::Progress(text)
                }
                Signal::ToolHint(text) => TerminalEvent::ToolHint(text),
                Signal::Activity(step) => TerminalEvent::Activity(step),
            });
        });
        let report = self
            .agent
            .process_direct(request.with_observer(observer))
            .await?;
        Ok(TerminalReply {
            text: report.visible,
            ok: matches!(report.ended, TurnOutcome::Replied | TurnOutcome::Suppressed),
            streamed: report.stream.is_some(),
        })
    }
}

async fn ask_gateway(
    client: &ControlClient,
    session: &str,
    (message, media): (&str, Vec<MediaRef>),
    on_event: impl Fn(TerminalEvent),
) -> Result<TerminalReply, RuntimeError> {
    let mut conversation = client.converse(session).await?;
    let media = media.into_iter().map(|file| file.location.into()).collect();
    let turn = conversation.send_with_files(message, media).await?;
    let mut answer = TerminalReply {
        text: None,
        ok: true,
        streamed: false,
    };
    let gone = |source| RuntimeError::GatewayEnded {
        session: session.to_owned(),
        source,
    };
    let (mut is_answered, mut has_ended) = (false, false);
    loop {
        let next = conversation.next();
        let received = if is_answered || has_ended {
            match tokio::time::timeout(END_TIMEOUT, next).await {
                Ok(received) => received.map_err(gone)?,
                Err(_) => return Ok(answer),
            }
        } else {
            next.await.map_err(gone)?
        };
        match received {
            ConversationEvent::Event {
                event:
                    TerminalEvent::Reply {
                        text,
                        streamed,
                        ok,
                        job: None,
                    },
                is_answer: true,
                ..
            } => {
                answer = TerminalReply {
                    text: Some(text),
                    ok,
                    streamed,
                };
                is_answered = true;
                // The answer to a command is not a turn.
                if !ok || is_command(message) {
                    return Ok(answer);
                }
            }
            ConversationEvent::Event {
                event:
                    TerminalEvent::TurnEnd {
                        turn: ended,
                        unfinished,
                    },
                ..
            } if ended == turn => {
                return match unfinished {
                    0 => Ok(answer),
                    _ => follow_subagents(&mut conversation, answer, on_event).await,
                };
            }
            ConversationEvent::Event { event, .. } => on_event(event),
            ConversationEvent::TurnFinished => has_ended = true,
        }
    }
}

/// Shows an answer and what follows it, until no subagent of its session is unfinished.
async fn follow_subagents(
    conversation: &mut ControlConversation,
    mut answer: TerminalReply,
    on_event: impl Fn(TerminalEvent),
) -> Result<TerminalReply, RuntimeError> {
    if let Some(text) = answer.text.take() {
        on_event(TerminalEvent::Reply {
            text,
            streamed: answer.streamed,
            ok: answer.ok,
            job: None,
        });
    }
    loop {
        match conversation.next().await? {
            ConversationEvent::Event {
                event: TerminalEvent::TurnEnd { unfinished: 0, .. },
                ..
            } => return Ok(answer),
            ConversationEvent::Event { event, .. } => {
                answer.ok &= !matches!(
                    event,
                    TerminalEvent::Reply {
                        ok: false,
                        job: None,
                        ..
                    }
                );
                on_event(event);
            }
            ConversationEvent::TurnFinished => {}
        }
    }
}
