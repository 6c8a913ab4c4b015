//! Builds the agent: model, tools, sessions, context.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_agent_core::{
    Agent, AgentParts, AgentSettings, MessageTool, Outbox, SpawnTool, Spawner, SubagentSettings,
    Subagents, TurnOptions,
};
use nanobot_bus::EventFeed;
use nanobot_config::Config;
use nanobot_context::{ContextBuilder, ContextSettings, PromptStore, Purpose, sync_templates};
use nanobot_cron::JobHost;
use nanobot_extract::HelperProcess;
use nanobot_guard::PathPolicy;
use nanobot_heartbeat::HeartbeatSettings;
use nanobot_memory::MarkdownStore;
use nanobot_provider::ProviderRouter;
use nanobot_redact::Secrets;
use nanobot_state::SqliteSpendLedger;
use nanobot_tool::{Registry, RegistryError, Tool, Typed};
use nanobot_tools::{HttpClients, ToolsConfig, builtin};
use nanobot_types::ToolSpec;

use crate::assembly::approvals::approvals;
use crate::assembly::audit::AuditLog;
use crate::assembly::budget;
use crate::assembly::cron::JobScheduling;
use crate::assembly::mcp::Mcp;
use crate::assembly::memory;
use crate::assembly::model;
use crate::assembly::model_presets::agent_defaults;
use crate::assembly::path_rules::{outbox_folder, path_rules, results_folder};
use crate::assembly::prompts::prompt_notes;
use crate::assembly::sandbox::CommandSandbox;
use crate::assembly::settings::AgentDefaults;
use crate::assembly::skills;
use crate::assembly::spending::ChargedModel;
use crate::assembly::tool_files::OwnTools;
use crate::{ModelChoice, Runtime, RuntimeError, memory_store, session_store};

/// Environment variable of the Python program: maximum number of concurrent turns.
const CONCURRENCY_VARIABLE: &str = "NANOBOT_MAX_CONCURRENT_REQUESTS";

/// An agent, with what was found out while building it.
#[derive(Debug)]
pub(crate) struct Assistant {
    pub(crate) agent: Arc<Agent>,
    pub(crate) model: ModelChoice,
    /// Keeps account of the requests. Its owner closes it at the end.
    pub(crate) ledger: Arc<SqliteSpendLedger>,
    /// Sends the requests to the model's provider.
    pub(crate) router: Arc<ProviderRouter>,
    /// Files that were created in the workspace.
    pub(crate) created: Vec<PathBuf>,
    /// What starts the commands of tools.
    pub(crate) sandbox: CommandSandbox,
    /// The MCP servers. Their owner closes them at the end.
    pub(crate) mcp: Mcp,
    /// The audit log of the tools, for other events.
    pub(crate) audit: Arc<AuditLog>,
}

impl Assistant {
    /// Builds an agent. Its `message` tool writes to `outbox`; its `spawn` tool hands tasks to the
    /// spawner that `spawner` makes of the subagents; its `cron` tool states the limits of `host`.
    /// Starts new MCP servers in the background, so it needs a Tokio runtime.
    pub(crate) fn build(
        runtime: &Runtime,
        ChargedModel { model, ledger }: ChargedModel,
        outbox: Arc<dyn Outbox>,
        spawner: impl FnOnce(Arc<Subagents>) -> Arc<dyn Spawner>,
        events: EventFeed,
        secrets: Secrets,
        host: JobHost,
    ) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let workspace = config.workspace()?;
        let created = prepare(&workspace)?;
        let defaults = agent_defaults(config)?;
        let tools = Tools::of(runtime, &workspace, &secrets, host)?;
        let audit = tools.audit.clone();
        let contexts = Contexts::of(runtime, &workspace, &defaults)?;
        let consolidation = budget::consolidation(config, &defaults, &model)?;
        let token_budget = consolidation.budget();
        let heartbeat: HeartbeatSettings = config.section("gateway.heartbeat")?;
        let router = model::router(runtime, &defaults, &model)?.with_ledger(ledger.clone());
        let router = Arc::new(router);
        let data = &config.paths().data_dir;
        let approvals = approvals(config, &workspace, outbox.clone(), audit.clone(), &secrets)?;
        let settings = AgentSettings {
            options: TurnOptions {
                token_budget,
                ..defaults.turn_options()
            },
            max_concurrent_turns: concurrency(config, &defaults),
            model: model.to_string().into(),
            consolidation,
            prompt_profile: defaults.prompt_profile.fixed(),
            heartbeat_keeps: heartbeat.keep_recent_messages,
            results_folder: Some(results_folder(config)),
            media_folder: Some(config.paths().media.clone()),
            calibration_file: Some(data.join("tokens.json")),
            secrets,
            approvals: Some(approvals),
        };
        let parts = AgentParts {
            router: router.clone(),
            registry: tools.for_subagents(),
            sessions: session_store(config)?,
            context: Arc::new(contexts.for_subagents()),
            events,
        };
        let bounds = SubagentSettings {
            max_concurrent: defaults.max_concurrent_subagents,
            ..SubagentSettings::default()
        };
        let subagent_settings = AgentSettings {
            options: TurnOptions {
                token_budget,
                ..defaults.subagent_options()
            },
            ..settings.clone()
        };
        let subagents = Arc::new(Subagents::new(parts.clone(), subagent_settings, bounds));
        let spawner = (defaults.max_concurrent_subagents > 0).then(|| spawner(subagents.clone()));
        let registry = tools.for_assistant(outbox, spawner);
        let context = Arc::new(contexts.for_assistant(&registry));
        let parts = AgentParts {
            registry,
            context,
            ..parts
        };
        let agent = Agent::new(parts, settings).with_subagents(subagents);
        tools.mcp.start();
        Ok(Self {
            agent: Arc::new(agent),
            model,
            ledger,
            router,
            created,
            sandbox: tools.sandbox,
            mcp: tools.mcp,
            audit,
        })
    }
}

/// Creates the workspace and the files that are missing in it. Returns the created files.
pub(crate) fn prepare(workspace: &Path) -> Result<Vec<PathBuf>, RuntimeError> {
    let unusable = |source| RuntimeError::Workspace {
        path: workspace.to_owned(),
        source,
    };
    std::fs::create_dir_all(workspace).map_err(unusable)?;
    std::fs::read_dir(workspace).map_err(unusable)?;
    Ok(sync_templates(workspace)?)
}

fn concurrency(config: &Config, defaults: &AgentDefaults) -> usize {
    let configured = config
        .environment()
        .variable(CONCURRENCY_VARIABLE)
        .and_then(|text| text.trim().parse::<i64>().ok());
    configured.map_or(defaults.max_concurrent_turns, |count| {
        usize::try_from(count).unwrap_or(0)
    })
}

/// Sources of the prompts.
struct Contexts {
    settings: ContextSettings,
    memory: Arc<MarkdownStore>,
    notes: Arc<dyn PromptStore>,
}

impl Contexts {
    fn of(
        runtime: &Runtime,
        workspace: &Path,
        defaults: &AgentDefaults,
    ) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let skills = skills::skills(runtime)?;
        skills::write_built_in_skills(&skills);
        let settings = ContextSettings {
            bot_name: defaults.bot_name.clone(),
            session_folders: config.section::<ToolsConfig>("tools")?.session_folders,
            skills: Arc::new(skills),
            ..ContextSettings::new(workspace)
        };
        let memory = Arc::new(memory_store(config)?);
        Ok(Self {
            settings,
            memory,
            notes: prompt_notes(config),
        })
    }

    fn for_assistant(self, registry: &Registry) -> ContextBuilder {
        let names = |specs: &[ToolSpec]| specs.iter().map(|spec| spec.name.clone()).collect();
        ContextBuilder::new(
            ContextSettings {
                tools: names(&registry.specs()),
                core_tools: names(&registry.core_specs()),
                ..self.settings
            },
            self.memory,
        )
        .with_store(self.notes)
    }

    fn for_subagents(&self) -> ContextBuilder {
        let settings = ContextSettings {
            purpose: Purpose::Subagent,
            ..self.settings.clone()
        };
        ContextBuilder::new(settings, self.memory.clone()).with_store(self.notes.clone())
    }
}

/// Tools that need no conversation: files, shell, web, and those that were plugged in.
pub(crate) struct Tools {
    tools: Vec<Arc<dyn Tool>>,
    /// Those that requests do not list until the model searches for them.
    on_demand: Vec<Arc<dyn Tool>>,
    /// Memory and session search, and the tool that sets reminders.
    lookups: Vec<Arc<dyn Tool>>,
    sandbox: CommandSandbox,
    policy: Arc<PathPolicy>,
    audit: Arc<AuditLog>,
    secrets: Secrets,
    mcp: Mcp,
    own: OwnTools,
    /// Folder of attachments that are still to be sent.
    outbox: PathBuf,
}

impl Tools {
    pub(crate) fn of(
        runtime: &Runtime,
        workspace: &Path,
        secrets: &Secrets,
        host: JobHost,
    ) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let tools: ToolsConfig = config.section("tools")?;
        let policy = Arc::new(PathPolicy::new(path_rules(runtime, &tools, workspace)?));
        let reader = Arc::new(HelperProcess::new());
        let http = Arc::new(HttpClients::new(
            &tools.web,
            Arc::new(tools.url_guard()?),
            reader,
        ));
        let sandbox = CommandSandbox::of(&tools, &policy);
        let built_in = builtin(&tools, &policy, &http, sandbox.runner())?;
        let mut tools = built_in.listed;
        tools.extend(runtime.extensions().tools.iter().cloned());
        let mut lookups = memory::tools(config)?;
        lookups.extend(JobScheduling::of(config)?.tool(memory::audiences(config)?, host));
        let mut on_demand = built_in.on_demand;
        let others = tools.iter().chain(&on_demand).chain(&lookups);
        let own = OwnTools::of(config, &policy, others)?;
        on_demand.extend(own.check_tool());
        Ok(Self {
            tools,
            on_demand,
            lookups,
            own,
            sandbox,
            policy,
            audit: Arc::new(AuditLog::of(config, secrets.clone())?),
            secrets: secrets.clone(),
            mcp: Mcp::of(config, secrets)?,
            outbox: outbox_folder(config),
        })
    }

    /// Returns the tools of the main agent: these, search, reminders, `message` and `spawn`.
    pub(crate) fn for_assistant(
        &self,
        outbox: Arc<dyn Outbox>,
        spawner: Option<Arc<dyn Spawner>>,
    ) -> Arc<Registry> {
        let message = MessageTool::new(outbox, self.policy.clone(), self.outbox.clone())
            .with_secrets(self.secrets.clone());
        let message: Arc<dyn Tool> = Arc::new(Typed::new(message));
        let spawn =
            spawner.map(|spawner| Arc::new(Typed::new(SpawnTool::new(spawner))) as Arc<dyn Tool>);
        self.registry(self.lookups.iter().cloned().chain([message]).chain(spawn))
    }

    /// Returns the tools of a subagent: it sends no messages and starts no subagents.
    fn for_subagents(&self) -> Arc<Registry> {
        self.registry([])
    }

    fn registry(&self, more: impl IntoIterator<Item = Arc<dyn Tool>>) -> Arc<Registry> {
        let registry = self.own.feed(Registry::watched(self.audit.clone()));
        for tool in self.tools.iter().cloned().chain(more) {
            log_failure(registry.register(tool));
        }
        for tool in self.on_demand.iter().cloned() {
            log_failure(registry.register_deferred(tool));
        }
        let registry = Arc::new(registry);
        self.mcp.attach(&registry);
        registry
    }
}

fn log_failure(registered: Result<(), RegistryError>) {
    if let Err(error) = registered {
        tracing::error!(%error, "a tool is not available");
    }
}
