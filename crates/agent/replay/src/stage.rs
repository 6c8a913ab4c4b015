//! Runs a recorded turn with an agent whose model, tools and store follow the record.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use nanobot_bus::EventFeed;
use nanobot_context::ContextBuilder;
use nanobot_provider::{
    Candidate, ChatRequest, ChatStream, Generation, Provider, ProviderError, ProviderRouter,
    RetryPolicy,
};
use nanobot_session::{
    Entry, InMemoryStore, MessageEntry, ReadFrom, Seq, SessionError, SessionInfo, SessionStore,
    SessionView, TurnOutcome,
};
use nanobot_tool::{Registry, Tool, ToolContext};
use nanobot_types::{
    ChannelName, ChatId, DeliveryContext, Map, Origin, ProviderName, SessionKey, ToolResult,
    ToolSpec, TraceId,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ReplayOptions;
use crate::script::Script;
use crate::turns::{RecordedTurn, without_files};
use nanobot_agent_core::{
    Agent, AgentParts, AgentSettings, Signal, Steering, TurnFacts, TurnRequest,
};

/// Name for turns whose end is not recorded.
const UNNAMED: &str = "replay";

/// Replays a turn and returns what it journaled.
pub(crate) async fn play(
    turn: &RecordedTurn<'_>,
    options: &ReplayOptions,
    specs: &[ToolSpec],
    context: Arc<ContextBuilder>,
) -> Vec<Entry> {
    let Some(opening) = turn.messages.get(turn.opening) else {
        return Vec::new();
    };
    let script = Arc::new(Script::of(turn));
    let given = Arc::new(AtomicUsize::new(0));
    let history = turn.history();
    let past = history.len();
    let store = Arc::new(JournalStore::default());
    if store
        .inner
        .append(&options.session, Seq(0), history)
        .await
        .is_err()
    {
        return Vec::new();
    }
    let agent = agent(&script, &given, specs, context, store.clone(), options);
    let facts = facts(&options.session, opening);
    let mut steering = RecordedSteering {
        script: script.clone(),
        given,
        next: 0,
    };
    // A turn whose end is not recorded is interrupted after its last message and not resumed.
    let last = if turn.end.is_some() {
        usize::MAX
    } else {
        turn.messages.len()
    };
    for interrupted_after in script.interruptions().iter().copied().chain([last]) {
        let cancel = CancellationToken::new();
        store.begin(Bounds {
            interrupted_after,
            stopped_after: turn
                .end
                .filter(|end| end.outcome == TurnOutcome::Stopped)
                .map(|_| turn.messages.len()),
            cancel: cancel.clone(),
        });
        let request = TurnRequest {
            facts: facts.clone(),
            entry: without_files(opening),
            trace: turn.id().cloned().unwrap_or_else(|| TraceId::from(UNNAMED)),
            observer: Arc::new(|_: Signal| {}),
            cancel,
            interrupt: CancellationToken::new(),
            steering: &mut steering,
        };
        match agent.run_turn(request).await {
            Ok(_) => break,
            Err(error) => tracing::debug!(%error, "a replayed turn was interrupted"),
        }
    }
    let view = store
        .inner
        .read(&options.session, ReadFrom::Seq(Seq(0)))
        .await
        .unwrap_or_default();
    view.records
        .into_iter()
        .skip(past)
        .map(|record| record.entry)
        .collect()
}

fn agent(
    script: &Arc<Script>,
    given: &Arc<AtomicUsize>,
    specs: &[ToolSpec],
    context: Arc<ContextBuilder>,
    sessions: Arc<dyn SessionStore>,
    options: &ReplayOptions,
) -> Agent {
    let registry = Registry::new();
    for (spec, is_checked) in script.tools(specs) {
        if let Err(error) = registry.register(Arc::new(RecordedTool {
            spec,
            is_checked,
            script: script.clone(),
        })) {
            tracing::warn!(%error, "a tool was left out of a replay");
        }
    }
    let model = RecordedModel {
        name: ProviderName::from(UNNAMED),
        script: script.clone(),
        given: given.clone(),
    };
    // Answers were already bounded when they were recorded.
    let generation = Generation {
        max_tokens: u32::MAX,
        ..Generation::default()
    };
    let candidate = Candidate {
        provider: Arc::new(model),
        model: UNNAMED.into(),
        generation,
    };
    let policy = RetryPolicy {
        pauses: Vec::new(),
        longest_pause: Duration::ZERO,
        ..RetryPolicy::default()
    };
    let parts = AgentParts {
        router: Arc::new(ProviderRouter::new([candidate], policy)),
        registry: Arc::new(registry),
        sessions,
        context,
        events: EventFeed::new(),
    };
    Agent::new(
        parts,
        AgentSettings {
            options: script.options(&options.turn_options),
            ..AgentSettings::default()
        },
    )
}

/// Returns the facts of the turn, as far as its first message shows them.
fn facts(session: &SessionKey, opening: &MessageEntry) -> TurnFacts {
    let block_field = |label: &str| {
        let lines = opening.runtime.as_deref().unwrap_or_default().lines();
        lines.filter_map(|line| line.strip_prefix(label)).next()
    };
    let (channel, chat) = session
        .as_str()
        .split_once(':')
        .unwrap_or(("", session.as_str()));
    TurnFacts {
        session: session.clone(),
        channel: ChannelName::from(block_field("Channel: ").unwrap_or(channel)),
        chat_id: ChatId::from(block_field("Chat ID: ").unwrap_or(chat)),
        message_id: None,
        sender: None,
        chat: None,
        delivery: DeliveryContext::default(),
        metadata: Map::new(),
        origin: Origin::User,
    }
}

/// A model that gives the recorded answers in order.
#[derive(Debug)]
struct RecordedModel {
    name: ProviderName,
    script: Arc<Script>,
    given: Arc<AtomicUsize>,
}

#[async_trait]
impl Provider for RecordedModel {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, _: ChatRequest) -> Result<ChatStream, ProviderError> {
        let given = self.given.fetch_add(1, Ordering::SeqCst);
        match self.script.answer(given) {
            Some(events) => Ok(Box::pin(stream::iter(events.clone().into_iter().map(Ok)))),
            None => Err(ProviderError::BadRequest(
                "the record has no answer left".to_owned(),
            )),
        }
    }
}

/// A tool that gives the recorded results by the positions of their calls.
#[derive(Debug)]
struct RecordedTool {
    spec: ToolSpec,
    /// `true` if the spec is the tool's own.
    is_checked: bool,
    script: Arc<Script>,
}

#[async_trait]
impl Tool for RecordedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, _: Value, context: &ToolContext) -> ToolResult {
        self.script.result(context.position, self.is_checked)
    }
}

/// Steering that supplies the recorded messages before the same model call.
struct RecordedSteering {
    script: Arc<Script>,
    given: Arc<AtomicUsize>,
    next: usize,
}

#[async_trait]
impl Steering for RecordedSteering {
    async fn take(&mut self) -> Vec<MessageEntry> {
        let given = self.given.load(Ordering::SeqCst);
        let due = self
            .script
            .steering()
            .iter()
            .skip(self.next)
            .take_while(|(answers, _)| *answers <= given);
        let entries: Vec<MessageEntry> = due.map(|(_, entry)| entry.clone()).collect();
        self.next += entries.len();
        entries
    }
}

/// Points at which a run ends early, as numbers of messages in the turn.
#[derive(Debug)]
struct Bounds {
    /// No message after this one is stored.
    interrupted_after: usize,
    /// The turn is stopped once this message is stored.
    stopped_after: Option<usize>,
    cancel: CancellationToken,
}

/// A session in memory that fails where the recorded turn was interrupted, and stops the turn where
/// it was stopped.
#[derive(Debug, Default)]
struct JournalStore {
    inner: InMemoryStore,
    journaled: AtomicUsize,
    bounds: Mutex<Option<Bounds>>,
}

impl JournalStore {
    fn begin(&self, bounds: Bounds) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = Some(bounds);
    }

    /// Returns how many more messages can be stored.
    fn room(&self) -> usize {
        let bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = bounds
            .as_ref()
            .map_or(usize::MAX, |bounds| bounds.interrupted_after);
        limit.saturating_sub(self.journaled.load(Ordering::SeqCst))
    }

    fn count(&self, messages: usize) {
        let journaled = self.journaled.fetch_add(messages, Ordering::SeqCst) + messages;
        let bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bounds) = &*bounds
            && bounds.stopped_after.is_some_and(|last| journaled >= last)
        {
            bounds.cancel.cancel();
        }
    }
}

#[async_trait]
impl SessionStore for JournalStore {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        let mut room = self.room();
        let wanted = entries.len();
        let mut messages = 0;
        let kept: Vec<Entry> = entries
            .into_iter()
            .take_while(|entry| {
                let fits = room > 0;
                if fits && matches!(entry, Entry::Message(_)) {
                    room -= 1;
                    messages += 1;
                }
                fits
            })
            .collect();
        let is_whole = kept.len() == wanted;
        let head = self.inner.append(key, head, kept).await?;
        self.count(messages);
        if is_whole {
            return Ok(head);
        }
        let source = std::io::Error::other("the record ends here");
        Err(SessionError::Io {
            key: key.clone(),
            action: "go on with",
            path: "memory".into(),
            source,
        })
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.inner.read(key, from).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        self.inner.list().await
    }
}
