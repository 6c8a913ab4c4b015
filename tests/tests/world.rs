//! A whole assistant with a real client and a scripted model server: workspace, tools, sessions.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::NaiveDate;
use nanobot_agent_core::{
    Agent, AgentError, AgentParts, AgentSettings, MessageTool, Observer, Outbox, OutboxError,
    Signal, Steering, TurnFacts, TurnOptions, TurnReport, TurnRequest,
};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings, FilePromptStore, sync_templates};
use nanobot_guard::PathPolicy;
use nanobot_memory::MarkdownStore;
use nanobot_provider::{Candidate, Generation, Provider, ProviderRouter, RetryPolicy};
use nanobot_providers::{ApiKey, HttpClients, ProviderSettings, ProviderSpec, Selection, build};
use nanobot_session::{
    Entry, JsonlStore, MessageEntry, ReadFrom, Seq, SessionError, SessionInfo, SessionPaths,
    SessionStore, SessionView,
};
use nanobot_testkit::ModelServer;
use nanobot_tool::{Registry, Tool, ToolContext, Typed};
use nanobot_tools::{DirectRunner, ToolsConfig, builtin};
use nanobot_types::{
    ChatMessage, Content, DeliveryContext, Map, MediaRef, Origin, OutboundMessage, SessionKey,
    ToolResult, ToolSpec, UserMessage,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The key that every client sends. It must not appear anywhere else.
pub(crate) const KEY: &str = "sk-canary-0123456789abcdef";

/// Number of runs of each tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<Mutex<BTreeMap<String, u32>>>);

impl Runs {
    pub(crate) fn of(&self, tool: &str) -> u32 {
        self.0.lock().unwrap().get(tool).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> u32 {
        self.0.lock().unwrap().values().sum()
    }
}

/// A tool whose runs are counted.
#[derive(Debug)]
struct Counted {
    tool: Arc<dyn Tool>,
    runs: Runs,
}

#[async_trait]
impl Tool for Counted {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult {
        *self
            .runs
            .0
            .lock()
            .unwrap()
            .entry(self.spec().name.to_string())
            .or_default() += 1;
        self.tool.execute(arguments, context).await
    }
}

/// Discards the messages of the `message` tool.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Outbox for Nowhere {
    async fn enqueue(&self, _: OutboundMessage) -> Result<(), OutboxError> {
        Ok(())
    }
}

/// A temporary home: a workspace as a first start creates it, and its sessions.
pub(crate) struct World {
    root: tempfile::TempDir,
    pub(crate) options: TurnOptions,
    pub(crate) policy: RetryPolicy,
    pub(crate) runs: Runs,
}

impl World {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        sync_templates(&root.path().join("workspace")).unwrap();
        let policy = RetryPolicy {
            pauses: vec![Duration::from_millis(1); 3],
            ..RetryPolicy::default()
        };
        Self {
            root,
            options: TurnOptions::default(),
            policy,
            runs: Runs::default(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    /// Writes a file in the workspace.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns all built-in tools, with their runs counted.
    pub(crate) fn registry(&self) -> Registry {
        let config = ToolsConfig::default();
        let policy = Arc::new(PathPolicy::new(config.path_rules(self.workspace())));
        let guard = Arc::new(config.url_guard().unwrap());
        let http = Arc::new(nanobot_tools::HttpClients::new(
            &config.web,
            guard,
            Arc::new(nanobot_testkit::InProcess),
        ));
        let tool = MessageTool::new(
            Arc::new(Nowhere),
            Arc::clone(&policy),
            self.workspace().join(".outbox"),
        );
        let message: Arc<dyn Tool> = Arc::new(Typed::new(tool));
        let registry = Registry::new();
        for tool in builtin(&config, &policy, &http, Arc::new(DirectRunner))
            .unwrap()
            .listed
            .into_iter()
            .chain([message])
        {
            registry
                .register(Arc::new(Counted {
                    tool,
                    runs: self.runs.clone(),
                }))
                .unwrap();
        }
        registry
    }

    /// Builds an assistant from the files on disk, as a new process would.
    pub(crate) fn agent(&self, candidates: impl IntoIterator<Item = Candidate>) -> Agent {
        self.agent_over(candidates, Arc::new(self.sessions()))
    }

    /// Returns the store of this home's sessions.
    pub(crate) fn sessions(&self) -> JsonlStore {
        JsonlStore::new(SessionPaths::discover(
            &self.workspace(),
            self.root(),
            self.root(),
        ))
    }

    pub(crate) fn agent_over(
        &self,
        candidates: impl IntoIterator<Item = Candidate>,
        sessions: Arc<dyn SessionStore>,
    ) -> Agent {
        let memory = Arc::new(MarkdownStore::new(self.workspace().join("memory")));
        let settings = ContextSettings {
            today,
            ..ContextSettings::new(self.workspace())
        };
        let context = ContextBuilder::new(settings, memory);
        let parts = AgentParts {
            router: Arc::new(ProviderRouter::new(candidates, self.policy.clone())),
            registry: Arc::new(self.registry()),
            sessions,
            context: Arc::new(
                context.with_store(Arc::new(FilePromptStore::new(self.root().join("prompts")))),
            ),
            events: EventFeed::new(),
        };
        Agent::new(
            parts,
            AgentSettings {
                options: self.options.clone(),
                ..AgentSettings::default()
            },
        )
    }
}

/// Returns a fixed date, so that the date never changes during a test.
pub(crate) fn today() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, 21).unwrap()
}

/// Returns a real client of the vendor `name` that connects to `server`.
pub(crate) fn vendor(name: &str, server: &ModelServer) -> Candidate {
    // The first test installs it; the others find it installed.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let selection = Selection {
        name: name.into(),
        spec: ProviderSpec::find(name).unwrap(),
    };
    let settings = ProviderSettings {
        api_key: ApiKey::parse(KEY).unwrap(),
        api_base: Some(server.base_url()),
        ..ProviderSettings::default()
    };
    let connection = build(
        &selection,
        &settings,
        "model",
        Arc::new(HttpClients::default()),
    )
    .unwrap();
    Candidate {
        provider: connection.provider,
        model: connection.model,
        generation: Generation::default(),
    }
}

/// Makes a provider the only candidate.
pub(crate) fn candidate(provider: Arc<dyn Provider>) -> Candidate {
    Candidate {
        provider,
        model: "model".into(),
        generation: Generation::default(),
    }
}

/// A user's message in a session, and the messages that follow while the turn runs.
#[derive(Default)]
pub(crate) struct UserTurn {
    pub(crate) text: String,
    pub(crate) media: Vec<MediaRef>,
    /// Id of the message at the platform. If it is set, an interrupted turn is continued.
    pub(crate) id: Option<String>,
    /// Messages that arrive before the first, second, … model call.
    pub(crate) steering: VecDeque<Vec<String>>,
    pub(crate) cancel: CancellationToken,
}

impl UserTurn {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Runs one turn in `session` (`channel:chat`), as a lane does.
pub(crate) async fn run_turn(
    agent: &Agent,
    session: &str,
    said: UserTurn,
) -> Result<TurnReport, AgentError> {
    let (channel, chat) = session.split_once(':').unwrap();
    let facts = TurnFacts {
        session: SessionKey::from(session),
        channel: channel.into(),
        chat_id: chat.into(),
        message_id: None,
        sender: None,
        chat: None,
        delivery: DeliveryContext::default(),
        metadata: Map::new(),
        origin: Origin::User,
    };
    let mut steering = TurnSteering {
        agent,
        facts: facts.clone(),
        batches: said.steering,
    };
    let request = TurnRequest {
        entry: MessageEntry {
            inbound: said.id.map(|id| format!("{session}:{id}").into()),
            ..entry(agent, &facts, said.text, said.media)
        },
        facts,
        trace: "turn".into(),
        observer: Arc::new(Unseen),
        cancel: said.cancel,
        interrupt: CancellationToken::new(),
        steering: &mut steering,
    };
    agent.run_turn(request).await
}

fn entry(agent: &Agent, facts: &TurnFacts, text: String, media: Vec<MediaRef>) -> MessageEntry {
    let entry = MessageEntry::new(ChatMessage::User(UserMessage {
        content: Content::Text(text),
        media,
    }));
    MessageEntry {
        runtime: Some(agent.runtime_block(&entry.at, &facts.channel, &facts.chat_id)),
        ..entry
    }
}

struct Unseen;

impl Observer for Unseen {
    fn signal(&self, _: Signal) {}
}

/// The messages that arrive while a turn runs.
struct TurnSteering<'a> {
    agent: &'a Agent,
    facts: TurnFacts,
    batches: VecDeque<Vec<String>>,
}

#[async_trait]
impl Steering for TurnSteering<'_> {
    async fn take(&mut self) -> Vec<MessageEntry> {
        let batch = self.batches.pop_front().unwrap_or_default();
        batch
            .into_iter()
            .map(|text| entry(self.agent, &self.facts, text, Vec::new()))
            .collect()
    }
}

/// A store in a process that is killed: after a number of appends nothing is written any more.
#[derive(Debug)]
pub(crate) struct Dying {
    store: JsonlStore,
    appends_left: AtomicUsize,
}

impl Dying {
    pub(crate) fn new(store: JsonlStore, appends: usize) -> Self {
        Self {
            store,
            appends_left: AtomicUsize::new(appends),
        }
    }
}

#[async_trait]
impl SessionStore for Dying {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        let alive = self
            .appends_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        if alive.is_err() {
            let source = std::io::Error::other("the process was killed");
            return Err(SessionError::Io {
                key: key.clone(),
                action: "append to",
                path: "nowhere".into(),
                source,
            });
        }
        self.store.append(key, head, entries).await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.store.read(key, from).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        self.store.list().await
    }
}
