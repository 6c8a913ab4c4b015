//! The parts of a gateway between its channels and its model, in a home of their own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use nanobot_agent_core::{Agent, AgentError, AgentLoop, AgentParts, AgentSettings, LoopSettings};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_memory::MarkdownStore;
use nanobot_provider::{Candidate, Generation, ProviderRouter, RetryPolicy};
use nanobot_session::{Durability, JsonlStore, SessionPaths};
use nanobot_state::{CommitDurability, SqliteBus, StateDb};
use nanobot_tool::Registry;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::model::InProcessModel;

/// A bus with an agent that consumes it.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) bus: SqliteBus,
    cancel: CancellationToken,
    running: JoinHandle<Result<(), AgentError>>,
    _home: TempDir,
}

/// Parameters of an assembly.
#[derive(Clone, Copy, Debug)]
pub(super) struct AssemblyShape {
    pub(super) durability: Durability,
    /// Number of sessions that are active at the same time.
    pub(super) sessions: usize,
    /// Maximum number of concurrent turns; 0 is no limit.
    pub(super) turns: usize,
    /// Latency of the model.
    pub(super) model: Duration,
}

impl Assembly {
    /// Assembles the parts in a new folder below `folder`.
    pub(super) async fn start(folder: &Path, shape: AssemblyShape) -> Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("nanobot-durability-")
            .tempdir_in(folder)?;
        let workspace = home.path().join("workspace");
        std::fs::create_dir_all(&workspace)?;
        let survives = match shape.durability {
            Durability::Disk => CommitDurability::PowerCut,
            Durability::Os => CommitDurability::ProcessEnd,
        };
        let bus = SqliteBus::open(StateDb::open_for(home.path().join("state.db"), survives).await?)
            .await?;
        let candidate = Candidate {
            provider: Arc::new(InProcessModel::new(shape.model)),
            model: "model".into(),
            generation: Generation::default(),
        };
        let paths = SessionPaths::only(workspace.join("sessions"));
        let memory = Arc::new(MarkdownStore::new(workspace.join("memory")));
        let context = ContextSettings {
            sessions_kept: shape.sessions.max(256),
            ..ContextSettings::new(&workspace)
        };
        let parts = AgentParts {
            router: Arc::new(ProviderRouter::new([candidate], RetryPolicy::default())),
            registry: Arc::new(Registry::new()),
            sessions: Arc::new(JsonlStore::new(paths).with_durability(shape.durability)),
            context: Arc::new(ContextBuilder::new(context, memory)),
            events: EventFeed::new(),
        };
        let settings = AgentSettings {
            max_concurrent_turns: shape.turns,
            ..AgentSettings::default()
        };
        let agent = Arc::new(Agent::new(parts, settings));
        let ledger = Arc::new(bus.clone());
        let settings = LoopSettings {
            grace: Duration::ZERO,
            ..LoopSettings::default()
        };
        let agent_loop = AgentLoop::new(agent, ledger.clone(), ledger, settings);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let running = TaskTracker::new().spawn(async move { agent_loop.run(stop).await });
        Ok(Self {
            bus,
            cancel,
            running,
            _home: home,
        })
    }

    /// Stops all tasks and closes the ledger.
    pub(super) async fn stop(self) -> Result<()> {
        self.cancel.cancel();
        self.running.await??;
        self.bus.close().await;
        Ok(())
    }
}
