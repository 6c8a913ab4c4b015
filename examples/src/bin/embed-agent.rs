//! An assistant inside another program: no bus, no configuration file, no channel.
#![expect(clippy::print_stdout, reason = "the reply goes to the terminal")]
use std::process::ExitCode;
use std::sync::Arc;

use nanobot_agent_core::{Agent, AgentParts, AgentSettings, DirectRequest};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_extract::HelperProcess;
use nanobot_guard::PathPolicy;
use nanobot_memory::MarkdownStore;
use nanobot_provider::{Candidate, Generation, ProviderRouter, RetryPolicy};
use nanobot_providers::Demo;
use nanobot_session::InMemoryStore;
use nanobot_tool::Registry;
use nanobot_tools::{DirectRunner, HttpClients, ToolsConfig, builtin};

fn main() -> anyhow::Result<ExitCode> {
    // Web pages are read by this program once more, as its own helper.
    if let Some(code) = nanobot_extract::enter() {
        return Ok(code);
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run())
}

async fn run() -> anyhow::Result<ExitCode> {
    let workspace = std::env::current_dir()?;
    let (config, registry) = (ToolsConfig::default(), Registry::new());
    let reader = Arc::new(HelperProcess::of_this_program());
    let http = Arc::new(HttpClients::new(
        &config.web,
        Arc::new(config.url_guard()?),
        reader,
    ));
    let paths = Arc::new(PathPolicy::new(config.path_rules(&workspace)));
    for tool in builtin(&config, &paths, &http, Arc::new(DirectRunner))? {
        registry.register(tool)?;
    }
    let demo = Arc::new(Demo::new("demo".into()));
    let candidate = Candidate {
        provider: demo,
        model: "demo".into(),
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
    let question = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "What files are here?".to_owned());
    let report = Agent::new(parts, AgentSettings::default())
        .process_direct(DirectRequest::new(question))
        .await?;
    println!("{}", report.visible.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}
