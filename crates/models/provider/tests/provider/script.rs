//! A provider that plays a script: one step per request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use nanobot_provider::{
    CallAccount, CallContext, Candidate, ChatRequest, ChatStream, ContextWindow, Delta, Generation,
    Provider, ProviderError, ProviderRouter, RetryPolicy, StreamEvent, ToolChoice, TurnMemo,
};
use nanobot_types::{ChatMessage, FinishReason, ModelId, ProviderName, Transcript};
use tokio_util::sync::CancellationToken;

type Item = Result<StreamEvent, ProviderError>;

/// Scripted reaction to one request.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// These events, then the end of the stream.
    Events(Vec<Item>),
    /// These events, then silence.
    Stall(Vec<Item>),
    /// One event after each such pause, without end.
    Drip(Duration),
    /// A whole answer after this time.
    Late(Duration),
    /// An error instead of a stream.
    Refuse(ProviderError),
}

pub(crate) fn text(text: &str) -> Play {
    Play::Events(vec![
        Ok(StreamEvent::Text(text.to_owned())),
        Ok(StreamEvent::Finished(FinishReason::Stop)),
    ])
}

pub(crate) fn refuse(error: ProviderError) -> Play {
    Play::Refuse(error)
}

#[derive(Debug)]
pub(crate) struct Scripted {
    name: ProviderName,
    is_local: bool,
    window: Option<u32>,
    plays: Mutex<VecDeque<Play>>,
    requests: Mutex<Vec<ChatRequest>>,
}

impl Scripted {
    pub(crate) fn new(name: &str, plays: impl IntoIterator<Item = Play>) -> Arc<Self> {
        Self::placed(name, false, None, plays)
    }

    pub(crate) fn local(name: &str, plays: impl IntoIterator<Item = Play>) -> Arc<Self> {
        Self::placed(name, true, None, plays)
    }

    /// Returns a server that runs its model with a window of `tokens`.
    pub(crate) fn running_with(
        tokens: u32,
        name: &str,
        plays: impl IntoIterator<Item = Play>,
    ) -> Arc<Self> {
        Self::placed(name, true, Some(tokens), plays)
    }

    fn placed(
        name: &str,
        is_local: bool,
        window: Option<u32>,
        plays: impl IntoIterator<Item = Play>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            is_local,
            window,
            plays: Mutex::new(plays.into_iter().collect()),
            requests: Mutex::default(),
        })
    }

    pub(crate) fn push(&self, play: Play) {
        self.plays.lock().unwrap().push_back(play);
    }

    pub(crate) fn requests(&self) -> Vec<ChatRequest> {
        self.requests.lock().unwrap().clone()
    }
}

#[async_trait]
impl Provider for Scripted {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    async fn context_window(&self, _model: &ModelId) -> Option<ContextWindow> {
        let advice = "Load it with more.";
        self.window.map(|tokens| ContextWindow { tokens, advice })
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        self.requests.lock().unwrap().push(request);
        let play = self.plays.lock().unwrap().pop_front().unwrap();
        Ok(match play {
            Play::Events(events) => futures_util::stream::iter(events).boxed(),
            Play::Stall(events) => futures_util::stream::iter(events)
                .chain(futures_util::stream::pending())
                .boxed(),
            Play::Drip(pause) => futures_util::stream::unfold((), move |()| async move {
                tokio::time::sleep(pause).await;
                Some((Ok(StreamEvent::Reasoning("hm ".to_owned())), ()))
            })
            .boxed(),
            Play::Late(pause) => futures_util::stream::once(async move {
                tokio::time::sleep(pause).await;
                Ok(StreamEvent::Text("late".to_owned()))
            })
            .chain(futures_util::stream::iter([Ok(StreamEvent::Finished(
                FinishReason::Stop,
            ))]))
            .boxed(),
            Play::Refuse(error) => return Err(error),
        })
    }
}

pub(crate) fn router(providers: &[&Arc<Scripted>]) -> ProviderRouter {
    let candidates = providers.iter().map(|provider| Candidate {
        provider: Arc::clone(*provider) as Arc<dyn Provider>,
        model: "m".into(),
        generation: Generation {
            max_tokens: 7,
            ..Generation::default()
        },
    });
    ProviderRouter::new(candidates, RetryPolicy::default())
}

pub(crate) fn request(messages: Vec<ChatMessage>) -> ChatRequest {
    ChatRequest {
        model: "unset".into(),
        system: "system".into(),
        transcript: Transcript::repair(messages.into_iter().map(Arc::new)).transcript,
        tools: Arc::new([]),
        tool_choice: ToolChoice::Auto,
        generation: Generation::default(),
        cache_key: None,
        estimated_tokens: None,
        memo: TurnMemo::default(),
    }
}

pub(crate) fn hello() -> ChatRequest {
    request(vec![ChatMessage::user("hello")])
}

/// The deltas that were shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown(Arc<Mutex<Vec<Delta>>>);

impl Shown {
    pub(crate) fn text(&self) -> String {
        let deltas = self.0.lock().unwrap();
        deltas
            .iter()
            .map(|delta| match delta {
                Delta::Text(text) => text.as_str(),
                Delta::Restart => "|",
                _ => "",
            })
            .collect()
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        let deltas = self.0.lock().unwrap();
        deltas
            .iter()
            .filter_map(|delta| {
                if let Delta::Notice(line) = delta {
                    Some(line.clone())
                } else {
                    None
                }
            })
            .collect()
    }
}

pub(crate) fn unwatched() -> CallContext {
    CallContext {
        trace: "t".into(),
        deltas: None,
        cancel: CancellationToken::new(),
        account: CallAccount::default(),
    }
}

pub(crate) fn watched() -> (CallContext, Shown) {
    let shown = Shown::default();
    let deltas = Arc::clone(&shown.0);
    let sink = move |delta| deltas.lock().unwrap().push(delta);
    (
        CallContext {
            deltas: Some(Arc::new(sink)),
            ..unwatched()
        },
        shown,
    )
}
