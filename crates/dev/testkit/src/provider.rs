//! A scripted model in process: the [`Provider`] contract without HTTP.
//!
//! It records every [`ChatRequest`] and answers with [`Reply`] values. Delays run on tokio's clock,
//! so tests may pause it. Replies that exist only on a wire (raw bytes) become malformed answers
//! here.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use nanobot_provider::{
    ChatRequest, ChatStream, ContextWindow, Provider, ProviderError, StreamEvent,
};
use nanobot_types::{FinishReason, Map, ModelId, ProviderName};
use serde_json::json;

use crate::TestkitError;
use crate::gate::Gate;
use crate::reply::{AnswerEnding, FailureBody, Reply, ReplyKind, ScriptedAnswer, ScriptedFailure};
use crate::script::ReplyScript;
use crate::sync::Watched;

/// A provider that gives scripted replies.
#[derive(Debug)]
pub struct ScriptedProvider {
    name: ProviderName,
    script: ReplyScript<ChatRequest>,
    requests: Watched<Vec<ChatRequest>>,
    window: Option<ContextWindow>,
}

/// A stream item, and the pause before it.
type Item = (Pause, Result<StreamEvent, ProviderError>);

/// The pause before an event.
enum Pause {
    None,
    Time(Duration),
    Gate(Gate),
}

impl ScriptedProvider {
    /// Creates a provider called `scripted` that gives these replies in order.
    #[must_use]
    pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new("scripted", ReplyScript::queue(replies))
    }

    /// Creates a provider called `scripted` whose replies are computed from the request.
    #[must_use]
    pub fn answering(rule: impl Fn(&ChatRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self::new("scripted", ReplyScript::rule(rule))
    }

    /// Reports a context window from its first request on, as a local server does that has to load
    /// the model for it.
    #[must_use]
    pub fn running_with(self, tokens: u32) -> Self {
        let advice = "Load it with more.";
        Self {
            window: Some(ContextWindow { tokens, advice }),
            ..self
        }
    }

    /// Sets the provider's name.
    #[must_use]
    pub fn named(self, name: impl Into<ProviderName>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    fn new(name: &str, script: ReplyScript<ChatRequest>) -> Self {
        Self {
            name: name.into(),
            script,
            requests: Watched::default(),
            window: None,
        }
    }

    /// Adds a reply to the end of the queue.
    pub fn push(&self, reply: impl Into<Reply>) {
        self.script.push(reply.into());
    }

    /// Returns the number of queued replies that were not used yet.
    #[must_use]
    pub fn replies_left(&self) -> usize {
        self.script.left()
    }

    /// Returns every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.requests.read(Clone::clone)
    }

    /// Waits until there were `count` requests, and returns them all.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for(&self, count: usize) -> Result<Vec<ChatRequest>, TestkitError> {
        let what = format!("{count} model requests");
        self.requests
            .wait_for(&what, |requests| {
                (requests.len() >= count).then(|| requests.clone())
            })
            .await
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn context_window(&self, _model: &ModelId) -> Option<ContextWindow> {
        self.window.filter(|_| !self.requests.read(Vec::is_empty))
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        let number = self.requests.change(|requests| {
            requests.push(request.clone());
            requests.len()
        });
        let Some(reply) = self.script.next(&request) else {
            return Err(ProviderError::BadRequest(
                "the script has no reply left".to_owned(),
            ));
        };
        if let Some(gate) = &reply.gate {
            gate.passed().await;
        }
        match reply.shape {
            ReplyKind::Hang => std::future::pending().await,
            ReplyKind::Raw(_) => Err(ProviderError::Malformed(
                "raw bytes cannot be answered in process".to_owned(),
            )),
            ReplyKind::ScriptedFailure(failure) => Err(error_of(&failure)),
            ReplyKind::ScriptedAnswer(answer) => Ok(play(number, &answer)),
        }
    }
}

fn play(number: usize, answer: &ScriptedAnswer) -> ChatStream {
    let mut items = content(number, answer);
    let is_stalled = matches!(answer.ending, AnswerEnding::Stall);
    match &answer.ending {
        AnswerEnding::Complete => {
            items.push((Pause::None, Ok(StreamEvent::Usage(answer.usage))));
            items.push((
                Pause::None,
                Ok(StreamEvent::Finished(finish_of(answer.finish_reason()))),
            ));
        }
        AnswerEnding::Stall => {}
        AnswerEnding::Cut => items.push((
            Pause::None,
            Err(ProviderError::Network("connection reset".to_owned())),
        )),
        AnswerEnding::Fail { kind, message } => {
            let error = ProviderError::Server {
                retry_after: None,
                status: 200,
                message: format!("{kind}: {message}"),
            };
            items.push((Pause::None, Err(error)));
        }
    }
    if let Some(gate) = answer.hold.clone() {
        let first = items
            .iter()
            .position(|(_, item)| matches!(item, Ok(StreamEvent::Text(_))));
        if let Some((pause, _)) = items.get_mut(first.map_or(0, |first| first + 1)) {
            *pause = Pause::Gate(gate);
        }
    }
    let played = stream::iter(items).then(|(pause, item)| async move {
        match pause {
            Pause::None => {}
            Pause::Time(delay) => tokio::time::sleep(delay).await,
            Pause::Gate(gate) => gate.passed().await,
        }
        item
    });
    if is_stalled {
        Box::pin(played.chain(stream::pending()))
    } else {
        Box::pin(played)
    }
}

fn content(number: usize, answer: &ScriptedAnswer) -> Vec<Item> {
    let mut events = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        events.push((Pause::None, StreamEvent::Reasoning(reasoning.text.clone())));
        if !reasoning.signature.is_empty() {
            let block = json!({"type": "thinking", "thinking": reasoning.text, "signature": reasoning.signature});
            events.push((Pause::None, StreamEvent::ThinkingBlock(block)));
        }
    }
    for delta in &answer.deltas {
        let pause = if answer.delay > Duration::ZERO {
            Pause::Time(answer.delay)
        } else {
            Pause::None
        };
        events.push((pause, StreamEvent::Text(delta.clone())));
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let event = StreamEvent::ToolCall {
            index,
            id: Some(
                call.id
                    .clone()
                    .unwrap_or_else(|| format!("call_{number}_{index}")),
            ),
            name: Some(call.name.clone()),
            arguments: call.arguments.clone(),
            extra: Map::new(),
            function_extra: Map::new(),
        };
        events.push((Pause::None, event));
    }
    events
        .into_iter()
        .map(|(pause, event)| (pause, Ok(event)))
        .collect()
}

fn finish_of(reason: &str) -> FinishReason {
    match reason {
        "tool_calls" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        "model_context_window_exceeded" => FinishReason::ContextOverflow,
        _ => FinishReason::Stop,
    }
}

/// Maps the scripted status to the error that a vendor client would return.
fn error_of(failure: &ScriptedFailure) -> ProviderError {
    let (message, code) = match &failure.body {
        FailureBody::Message { text, code } => (text.clone(), code.as_deref().unwrap_or_default()),
        FailureBody::Exactly { text, .. } => (text.clone(), ""),
    };
    let retry_after = failure
        .headers
        .iter()
        .find(|(name, _)| name == "retry-after");
    let retry_after = retry_after
        .and_then(|(_, seconds)| seconds.parse().ok())
        .map(Duration::from_secs);
    match (failure.status, code) {
        (402, _) | (_, "insufficient_quota") => ProviderError::Quota(message),
        (401 | 403, _) => ProviderError::Auth(message),
        (429, _) => ProviderError::RateLimited {
            retry_after,
            message,
        },
        (400, "context_length_exceeded") => ProviderError::ContextOverflow(message),
        (400, "images_unsupported") => ProviderError::ImagesUnsupported(message),
        (400..=499, _) => ProviderError::BadRequest(message),
        (status, _) => ProviderError::Server {
            status,
            retry_after: None,
            message,
        },
    }
}
