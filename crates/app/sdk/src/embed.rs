//! An agent with the parts that most embedding programs want.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_agent_core::{Agent, AgentParts, AgentSettings};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_memory::MarkdownStore;
use nanobot_provider::{Candidate, Generation, Provider, ProviderRouter, RetryPolicy};
use nanobot_session::InMemoryStore;
use nanobot_tool::Registry;

/// Makes an agent that asks `provider` (the model is named after it), may call the tools of
/// `registry`, keeps its memory in `workspace`, and forgets its sessions with the process. Build
/// [`AgentParts`] to choose more.
#[must_use]
pub fn embedded_agent(
    provider: Arc<dyn Provider>,
    registry: Registry,
    workspace: impl Into<PathBuf>,
) -> Agent {
    let workspace = workspace.into();
    let candidate = Candidate {
        model: provider.name().as_str().into(),
        provider,
        generation: Generation::default(),
    };
    let memory = Arc::new(MarkdownStore::new(workspace.join("memory")));
    let parts = AgentParts {
        router: Arc::new(ProviderRouter::new([candidate], RetryPolicy::default())),
        registry: Arc::new(registry),
        sessions: Arc::new(InMemoryStore::new()),
        context: Arc::new(ContextBuilder::new(ContextSettings::new(workspace), memory)),
        events: EventFeed::new(),
    };
    Agent::new(parts, AgentSettings::default())
}
