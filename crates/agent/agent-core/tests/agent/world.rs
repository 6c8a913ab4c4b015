//! An agent with a scripted model, counting tools and a temporary workspace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_agent_core::{
    Agent, AgentParts, AgentSettings, ConsolidationSettings, MessageTool, Outbox, OutboxError,
    Signal, TurnOptions,
};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings, Purpose};
use nanobot_guard::{PathPolicy, PathRules};
use nanobot_memory::MarkdownStore;
use nanobot_provider::{Candidate, Generation, ProviderRouter, RetryPolicy};
use nanobot_replay::{ReplayOptions, TurnReplay, replay_session};
use nanobot_session::{InMemoryStore, ReadFrom, Seq, SessionStore};
use nanobot_testkit::ScriptedProvider;
use nanobot_tool::{Registry, Tool, ToolContext, Typed};
use nanobot_types::{
    ChatMessage, Effect, OutboundMessage, SessionKey, ToolResult, ToolSource, ToolSpec,
};
use serde_json::{Value, json};

/// Counts how often each tool ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunCounts(Arc<Mutex<BTreeMap<String, u32>>>);

impl RunCounts {
    pub(crate) fn of(&self, tool: &str) -> u32 {
        self.0.lock().unwrap().get(tool).copied().unwrap_or(0)
    }
}

/// A tool that only counts its calls.
#[derive(Debug)]
struct Counting {
    spec: ToolSpec,
    runs: RunCounts,
}

#[async_trait]
impl Tool for Counting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, arguments: Value, _: &ToolContext) -> ToolResult {
        *self
            .runs
            .0
            .lock()
            .unwrap()
            .entry(self.spec.name.to_string())
            .or_default() += 1;
        ToolResult::ok(format!("{} {arguments}", self.spec.name))
    }
}

/// Collects the messages that the `message` tool sends.
#[derive(Debug, Default)]
pub(crate) struct SentMessages(pub(crate) Mutex<Vec<OutboundMessage>>);

#[async_trait]
impl Outbox for SentMessages {
    async fn enqueue(&self, message: OutboundMessage) -> Result<(), OutboxError> {
        let mut kept = self.0.lock().unwrap();
        if !kept.iter().any(|known| known.key == message.key) {
            kept.push(message);
        }
        Ok(())
    }
}

pub(crate) struct World {
    pub(crate) provider: Arc<ScriptedProvider>,
    router: Arc<ProviderRouter>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) runs: RunCounts,
    pub(crate) outbox: Arc<SentMessages>,
    pub(crate) options: TurnOptions,
    workspace: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(provider: ScriptedProvider) -> Self {
        let provider = Arc::new(provider);
        let candidate = Candidate {
            provider: provider.clone(),
            model: "model".into(),
            generation: Generation::default(),
        };
        let policy = RetryPolicy {
            pauses: vec![Duration::from_millis(1)],
            ..RetryPolicy::default()
        };
        Self {
            provider,
            router: Arc::new(ProviderRouter::new([candidate], policy)),
            sessions: Arc::new(InMemoryStore::new()),
            runs: RunCounts::default(),
            outbox: Arc::default(),
            options: TurnOptions::default(),
            workspace: tempfile::tempdir().unwrap(),
        }
    }

    /// Returns the tools of every agent of this world.
    pub(crate) fn registry(&self) -> Registry {
        let registry = Registry::new();
        for (name, effect) in [
            ("look", Effect::Pure),
            ("put", Effect::Idempotent),
            ("send_money", Effect::Irreversible),
        ] {
            let spec = ToolSpec {
                name: name.into(),
                description: "Counts.".to_owned(),
                parameters: json!({"type": "object", "properties": {}}),
                effect,
                source: ToolSource::BuiltIn,
            };
            registry
                .register(Arc::new(Counting {
                    spec,
                    runs: self.runs.clone(),
                }))
                .unwrap();
        }
        let policy = Arc::new(PathPolicy::new(PathRules::new(self.workspace.path())));
        registry
            .register(Arc::new(Typed::new(MessageTool::new(
                self.outbox.clone(),
                policy,
                self.workspace.path().join(".outbox"),
            ))))
            .unwrap();
        registry
    }

    /// Creates a new agent over the state of the world, as after a restart.
    pub(crate) fn agent(&self) -> Arc<Agent> {
        Arc::new(Agent::new(
            self.parts(self.registry(), Purpose::Assistant),
            self.settings(),
        ))
    }

    pub(crate) fn settings(&self) -> AgentSettings {
        // `/new` would ask the model for a summary, but these tests script the model for turns
        // only.
        let consolidation = ConsolidationSettings {
            enabled: false,
            ..ConsolidationSettings::default()
        };
        AgentSettings {
            options: self.options.clone(),
            consolidation,
            ..AgentSettings::default()
        }
    }

    /// Returns the parts of an agent with these tools.
    pub(crate) fn parts(&self, registry: Registry, purpose: Purpose) -> AgentParts {
        let memory = Arc::new(MarkdownStore::new(self.workspace.path().join("memory")));
        let settings = ContextSettings {
            purpose,
            ..ContextSettings::new(self.workspace.path())
        };
        AgentParts {
            router: self.router.clone(),
            registry: Arc::new(registry),
            sessions: self.sessions.clone(),
            context: Arc::new(ContextBuilder::new(settings, memory)),
            events: EventFeed::new(),
        }
    }

    /// Replays a session with this world's tools and options.
    pub(crate) async fn replay(&self, session: &str) -> Vec<TurnReplay> {
        let options = ReplayOptions {
            turn_options: self.options.clone(),
            ..ReplayOptions::new(session)
        };
        let view = self
            .sessions
            .read(&SessionKey::from(session), ReadFrom::Seq(Seq(0)))
            .await
            .unwrap();
        replay_session(&view, &options, &self.registry().specs()).await
    }

    /// Asserts that this program repeats all of a session step by step.
    pub(crate) async fn assert_replays(&self, session: &str) {
        let replays = self.replay(session).await;
        let told: Vec<String> = replays.iter().map(ToString::to_string).collect();
        assert!(!told.is_empty(), "{session} has no turn");
        assert!(
            replays.iter().all(|replay| replay.divergence.is_none()),
            "{}",
            told.join("\n")
        );
    }

    /// Returns the messages of the session, as `role: text`.
    pub(crate) async fn log(&self, session: &str) -> Vec<String> {
        let view = self
            .sessions
            .read(&SessionKey::from(session), ReadFrom::Cursor)
            .await
            .unwrap();
        view.records
            .iter()
            .filter_map(|record| match &record.entry {
                nanobot_session::Entry::Message(entry) => Some(line(&entry.message)),
                nanobot_session::Entry::TurnEnded(end) => Some(format!("end: {:?}", end.outcome)),
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn line(message: &ChatMessage) -> String {
    match message {
        ChatMessage::Assistant(assistant) if !assistant.tool_calls.is_empty() => {
            let names: Vec<&str> = assistant
                .tool_calls
                .iter()
                .map(|call| call.name.as_str())
                .collect();
            format!("assistant calls {}: {}", names.join(" "), message.text())
        }
        other => format!("{}: {}", other.role(), other.text()),
    }
}

/// Collects signals.
#[derive(Debug, Default)]
pub(crate) struct CollectedSignals(pub(crate) Mutex<Vec<Signal>>);

impl nanobot_agent_core::Observer for CollectedSignals {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}
