//! What the examples about one part of an assistant share: the rest of it.
//!
//! `embed-agent` shows this wiring itself and is the one to begin with.

use std::path::Path;
use std::sync::Arc;

use nanobot_agent_core::{Agent, AgentParts, AgentSettings};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_memory::MarkdownStore;
use nanobot_provider::{Candidate, Generation, Provider, ProviderRouter, RetryPolicy};
use nanobot_session::InMemoryStore;
use nanobot_tool::Registry;

/// An assistant in the current folder that asks `provider`, may call the tools of `registry`, and
/// forgets its sessions with the process.
#[must_use]
pub fn agent(provider: Arc<dyn Provider>, registry: Registry) -> Agent {
    let candidate = Candidate {
        provider,
        model: "example".into(),
        generation: Generation::default(),
    };
    let parts = AgentParts {
        router: Arc::new(ProviderRouter::new([candidate], RetryPolicy::default())),
        registry: Arc::new(registry),
        sessions: Arc::new(InMemoryStore::new()),
        context: Arc::new(ContextBuilder::new(
            ContextSettings::new(Path::new(".")),
            Arc::new(MarkdownStore::new("memory")),
        )),
        events: EventFeed::new(),
    };
    Agent::new(parts, AgentSettings::default())
}
