//! One question and its answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_agent_core::{DirectRequest, Outbox, OutboxError, Signal};
use nanobot_bus::EventFeed;
use nanobot_config::Config;
use nanobot_control::{ControlClient, TerminalEvent, Told};
use nanobot_session::TurnOutcome;
use nanobot_types::{ChannelName, ChatId, OutboundMessage, SessionKey};

use super::{TerminalOptions, elsewhere, gateway, place};
use crate::assistant::Assistant;
use crate::{FirstVisit, ModelChoice, RuntimeError, model};

/// How long after the end of a turn that answered by the `message` tool a report of its failure
/// may still come.
const LATE_REPORT: Duration = Duration::from_millis(300);

/// The answer to one question.
#[derive(Debug)]
pub struct Answer {
    /// What to show; `None` when it was shown by the `message` tool.
    pub text: Option<String>,
    /// Whether it is an answer, not the report of a failure.
    pub ok: bool,
    /// Whether its pieces were shown before.
    pub streamed: bool,
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
        (self.on_event)(message.into());
        Ok(())
    }
}

/// Asks one question: the gateway that has the home, or an assistant of its own where none runs.
/// Before anything is asked, or written into the workspace, `on_start` is told who answers, and
/// on the first visit what was found in a home of the Python program.
///
/// # Errors
/// As [`Terminal::start`](super::Terminal::start).
pub async fn ask(
    config: &Config,
    options: TerminalOptions,
    text: &str,
    on_start: impl FnOnce(&ModelChoice, Option<&FirstVisit>),
    on_event: impl Fn(TerminalEvent) + Send + Sync + 'static,
) -> Result<Answer, RuntimeError> {
    if let Some(client) = gateway::of(config, &options).await {
        on_start(&ModelChoice::of_gateway(client.about().model.clone()), None);
        return ask_gateway(&client, &options.session, text, on_event).await;
    }
    let first_visit = FirstVisit::pay(config).await?;
    let (channel, chat_id) = place(&options.session);
    let on_event: OnEvent = Arc::new(on_event);
    let outbox = DirectOutbox { channel: channel.clone(), chat: chat_id.clone(), on_event: on_event.clone() };
    let model = model::choose(config, options.demo).await?;
    on_start(&model, first_visit.as_ref());
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
    })
}

async fn ask_gateway(
    client: &ControlClient,
    session: &str,
    text: &str,
    on_event: impl Fn(TerminalEvent),
) -> Result<Answer, RuntimeError> {
    let mut conversation = client.converse(session).await?;
    conversation.say(text).await?;
    let (mut is_told_by_tool, mut has_ended) = (false, false);
    loop {
        let next = conversation.next();
        let told = if is_told_by_tool && has_ended {
            match tokio::time::timeout(LATE_REPORT, next).await {
                Ok(told) => told?,
                Err(_) => return Ok(Answer { text: None, ok: true, streamed: false }),
            }
        } else {
            next.await?
        };
        match told {
            Told::Event { event: TerminalEvent::Reply { text, streamed, ok }, is_answer: true } => {
                return Ok(Answer { text: Some(text), ok, streamed });
            }
            Told::Event { event, .. } => {
                is_told_by_tool |= matches!(event, TerminalEvent::Reply { .. });
                on_event(event);
            }
            Told::TurnFinished => has_ended = true,
        }
    }
}
