//! Builds the agent: model, tools, sessions, context.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_agent_core::{Agent, AgentParts, AgentSettings, MessageTool, Outbox};
use nanobot_bus::EventFeed;
use nanobot_config::Config;
use nanobot_context::{ContextBuilder, ContextSettings, sync_templates};
use nanobot_guard::{CREDENTIAL_PATHS, PathPolicy, PathRules};
use nanobot_memory::MarkdownStore;
use nanobot_tool::{Registry, Typed};
use nanobot_tools::{DirectRunner, HttpClients, ToolsConfig, builtin};

use crate::settings::{AgentDefaults, SkillsConfig};
use crate::{ModelChoice, RuntimeError, control_socket, model, session_store};

/// The variable of the Python program for the number of turns at a time.
const CONCURRENCY_VARIABLE: &str = "NANOBOT_MAX_CONCURRENT_REQUESTS";

/// An agent and what was learned while it was built.
#[derive(Debug)]
pub(crate) struct Assistant {
    pub(crate) agent: Arc<Agent>,
    pub(crate) model: ModelChoice,
    /// Files that were made in the workspace.
    pub(crate) created: Vec<PathBuf>,
}

impl Assistant {
    /// Builds an agent whose `message` tool writes to `outbox`.
    pub(crate) fn build(
        config: &Config,
        model: ModelChoice,
        outbox: Arc<dyn Outbox>,
        events: EventFeed,
    ) -> Result<Self, RuntimeError> {
        let workspace = config.workspace()?;
        let created = prepare(&workspace)?;
        let defaults: AgentDefaults = config.section("agents.defaults")?;
        let parts = AgentParts {
            router: Arc::new(model::router(config, &defaults, &model)),
            registry: registry(config, &workspace, outbox)?,
            sessions: session_store(config)?,
            context: Arc::new(context(config, &workspace, &defaults)?),
            events,
        };
        let settings = AgentSettings {
            options: defaults.turn_options(),
            max_concurrent_turns: concurrency(config, &defaults),
            model: model.to_string().into(),
        };
        Ok(Self { agent: Arc::new(Agent::new(parts, settings)), model, created })
    }
}

/// Makes the workspace and what is missing in it.
pub(crate) fn prepare(workspace: &Path) -> Result<Vec<PathBuf>, RuntimeError> {
    let unusable = |source| RuntimeError::Workspace { path: workspace.to_owned(), source };
    std::fs::create_dir_all(workspace).map_err(unusable)?;
    std::fs::read_dir(workspace).map_err(unusable)?;
    Ok(sync_templates(workspace)?)
}

fn concurrency(config: &Config, defaults: &AgentDefaults) -> usize {
    let said = config.environment().variable(CONCURRENCY_VARIABLE).and_then(|text| text.trim().parse::<i64>().ok());
    said.map_or(defaults.max_concurrent_turns, |count| usize::try_from(count).unwrap_or(0))
}

fn context(config: &Config, workspace: &Path, defaults: &AgentDefaults) -> Result<ContextBuilder, RuntimeError> {
    let skills: SkillsConfig = config.section("skills")?;
    let settings = ContextSettings {
        bot_name: defaults.bot_name.clone(),
        skill_directories: library(config, &skills),
        always_skills: skills.always,
        ..ContextSettings::new(workspace)
    };
    let memory = Arc::new(MarkdownStore::new(workspace.join("memory")));
    Ok(ContextBuilder::new(settings, memory))
}

fn library(config: &Config, skills: &SkillsConfig) -> Vec<PathBuf> {
    skills.library_dirs.iter().map(|path| config.paths().expand(&path.to_string_lossy())).collect()
}

/// The tools of a configuration, the `message` tool among them, which writes to `outbox`.
pub(crate) fn registry(
    config: &Config,
    workspace: &Path,
    outbox: Arc<dyn Outbox>,
) -> Result<Arc<Registry>, RuntimeError> {
    let tools: ToolsConfig = config.section("tools")?;
    let policy = Arc::new(PathPolicy::new(path_rules(config, &tools, workspace)?));
    let http = Arc::new(HttpClients::new(&tools.web, Arc::new(tools.url_guard()?)));
    let registry = Registry::new();
    let message = Arc::new(Typed::new(MessageTool::new(outbox, policy.clone())));
    for tool in builtin(&tools, &policy, &http, Arc::new(DirectRunner))?.into_iter().chain([message as _]) {
        if let Err(error) = registry.register(tool) {
            tracing::error!(%error, "a tool is left out");
        }
    }
    Ok(Arc::new(registry))
}

/// The configuration and what else holds secrets is neither read nor changed by tools; files that
/// came with messages and skills can be read.
fn path_rules(config: &Config, tools: &ToolsConfig, workspace: &Path) -> Result<PathRules, RuntimeError> {
    let paths = config.paths();
    let skills: SkillsConfig = config.section("skills")?;
    let mut secret_paths = vec![paths.config_file.clone(), paths.state_db.clone(), control_socket(config)];
    secret_paths.extend(CREDENTIAL_PATHS.map(PathBuf::from));
    let mut read_only_roots = library(config, &skills);
    read_only_roots.push(paths.media.clone());
    Ok(PathRules { secret_paths, read_only_roots, ..tools.path_rules(workspace) })
}
