//! The gateway, which serves chat platforms: bus, agent, channels, health endpoint.

mod approval_notice;
mod background;
mod budget;
mod channel_reload;
pub(crate) mod commands;
mod health;
mod heartbeat;
pub(crate) mod lifecycle_notices;
mod pairing;
pub(crate) mod restart;
pub(crate) mod retention;
pub(crate) mod session_editor;
pub(crate) mod subagents;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nanobot_agent_core::{
    AgentError, AgentLoop, BusSpawner, LoopSettings, Outbox, Spawner, StepLog,
};
use nanobot_bus::{Bus, EventFeed, Ledger};
use nanobot_channel::Transcriber;
use nanobot_channels::{
    AccessNotice, ChannelManager, ChannelManagerParts, Health, MediaSettings, Stickers,
};
use nanobot_control::{ControlParts, ControlServer, GatewayInfo, RunningControl, ShutdownTokens};
use nanobot_cron::{JobHost, JobStore};
use nanobot_guard::PathPolicy;
use nanobot_redact::Secrets;
use nanobot_server::{HealthServer, ServerConfig};
use nanobot_state::{HomeLock, SqliteBus, StateDb};
use nanobot_tools::ToolsConfig;
use nanobot_watch::FileWatch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::background::{Background, BackgroundParts};
use self::channel_reload::ChannelReload;
use self::health::GatewayHealth;
use self::restart::Restart;
use self::session_editor::AgentSessionEditor;
use self::subagents::AgentSubagents;
use crate::assembly::access::HomeAccess;
use crate::assembly::assistant::Assistant;
use crate::assembly::channels::{build_all, configured_channels};
use crate::assembly::cron::{JobScheduling, UnseenJobResults};
use crate::assembly::extensions::{Extensions, Observation};
use crate::assembly::model;
use crate::assembly::path_rules::outbox_folder;
use crate::assembly::path_rules::path_rules;
use crate::assembly::secrets;
use crate::assembly::spending::{self, ChargedModel};
use crate::assembly::transcription;
use crate::{FirstRun, ModelChoice, Runtime, RuntimeError, control_socket, ledger_durability};

/// File in the home that records the steps in progress.
const STEPS_FILE: &str = "steps.jsonl";

/// Maximum time that replies may still be sent after the last turn ended.
const FLUSH_GRACE: Duration = Duration::from_secs(5);

/// Maximum time that hanging tasks may keep the ledger open.
const END_GRACE: Duration = Duration::from_secs(5);

/// Reason for an orderly end of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayEnd {
    /// It was asked to stop.
    Stopped,
    /// The user asked for a restart.
    ToRestart,
}

/// A gateway that owns its home and does not run yet.
#[derive(Debug)]
pub struct Gateway {
    bus: SqliteBus,
    assistant: Assistant,
    events: EventFeed,
    /// `None` if the socket cannot be opened: other commands then refuse, since the home is taken.
    control: Option<ControlServer>,
    about: GatewayInfo,
    background: Background,
    server: HealthServer,
    extensions: Arc<Extensions>,
    reload: ChannelReload,
    media: MediaSettings,
    notes: PathBuf,
    stickers: Stickers,
    transcriber: Option<Arc<dyn Transcriber>>,
    /// Keys of secrets that are too short to be redacted.
    short_secrets: Vec<String>,
    first_run: Option<FirstRun>,
    restart: Restart,
    access: HomeAccess,
    data_dir: PathBuf,
    jobs: JobStore,
    started: Instant,
    /// Released last, after the socket is closed.
    _lock: HomeLock,
}

impl Gateway {
    /// Locks the home, opens the ledger, builds the agent, checks the configuration, binds the health
    /// endpoint and builds the channels. Nothing is received yet. `secrets` are those of `runtime`;
    /// new ones are added when the configuration is reloaded.
    ///
    /// # Errors
    /// Returns [`RuntimeError::State`] if another gateway has the home, and the error of any part
    /// that cannot be made. A channel that cannot be made is no error: it is shown as failed.
    pub async fn start(runtime: &Runtime, secrets: Secrets) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let lock = HomeLock::acquire(&config.paths().data_dir)?;
        let first_run = FirstRun::perform(config).await?;
        let server_config: ServerConfig = config.section("gateway")?;
        let database =
            StateDb::open_for(&config.paths().state_db, ledger_durability(config)?).await?;
        if let Some(aside) = database.moved_aside() {
            tracing::warn!(aside = %aside.display(), "moved the damaged state database aside");
        }
        let ledger = spending::ledger(config, database.clone())?;
        let bus = SqliteBus::open(database).await?;
        let outbox: Arc<dyn Outbox> = Arc::new(Arc::new(bus.clone()) as Arc<dyn Bus>);
        let model = model::choose_for_gateway(runtime).await?;
        let events = EventFeed::new();
        let tasks: Arc<dyn Bus> = Arc::new(bus.clone());
        let spawner = |subagents| Arc::new(BusSpawner::new(tasks, subagents)) as Arc<dyn Spawner>;
        let assistant = Assistant::build(
            runtime,
            ChargedModel { model, ledger },
            outbox,
            spawner,
            events.clone(),
            secrets.clone(),
            JobHost::Gateway,
        )?;
        let sandbox = assistant.sandbox.clone();
        tokio::task::spawn_blocking(move || sandbox.check_and_log());
        let about = GatewayInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            model: assistant.model.to_string(),
            workspace: config.workspace()?,
            started_at: Some(chrono::Local::now().fixed_offset()),
        };
        let background = Background::of(runtime, &bus, assistant.router.clone())?;
        let channels = configured_channels(runtime)?
            .into_iter()
            .map(|configured| configured.registering_tokens(&secrets))
            .collect();
        let transcriber = transcription::transcriber(config)?;
        let stickers = stickers(runtime)?;
        let jobs = JobScheduling::of(config)?.store;
        // After all checks of the configuration: of two mistakes, that one is the person's, and the
        // port may only be taken for now.
        let server = HealthServer::bind(&server_config).await?;
        let control = listen(&control_socket(config)).await;
        let reload = ChannelReload::new(runtime.clone(), build_all(channels), secrets);
        let media = MediaSettings::below(config.paths().media.clone());
        let started = Instant::now();
        Ok(Self {
            bus,
            assistant,
            events,
            control,
            about,
            background,
            server,
            extensions: runtime.shared_extensions(),
            reload,
            media,
            notes: config.paths().channel_notes.clone(),
            transcriber,
            stickers,
            short_secrets: secrets::too_short(config),
            first_run,
            restart: Restart::of_home(&config.paths().data_dir),
            access: HomeAccess::of(runtime),
            data_dir: config.paths().data_dir.clone(),
            jobs,
            started,
            _lock: lock,
        })
    }

    /// Returns the summary to show at the start, one line each.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let mut lines = vec![
            format!("Model: {}", self.assistant.model),
            format!("Health: http://{}/health", self.server.address()),
        ];
        lines.extend(
            self.assistant
                .created
                .iter()
                .map(|path| format!("Created {}", path.display())),
        );
        lines.extend(
            self.reload
                .channels()
                .iter()
                .map(|(name, (_, built))| match built {
                    Ok(_) => format!("Channel {name}: enabled"),
                    Err(why) => format!("Channel {name}: failed ({why})"),
                }),
        );
        let built = self
            .reload
            .channels()
            .iter()
            .filter_map(|(name, (_, built))| Some((name, built.as_ref().ok()?)));
        let notices = built.flat_map(|(name, built)| built.settings.borrow().access.notices(name));
        lines.extend(
            notices
                .filter(AccessNotice::is_warning)
                .map(|notice| format!("Warning: {notice}")),
        );
        lines.extend(
            self.short_secrets
                .iter()
                .map(|key| format!("Warning: {}", secrets::short_warning(key))),
        );
        if self.reload.channels().is_empty() {
            lines.push(
                "No channel is enabled: set channels.<name>.enabled to true in the configuration."
                    .to_owned(),
            );
        }
        lines
    }

    /// Returns the model that answers.
    #[must_use]
    pub fn model(&self) -> &ModelChoice {
        &self.assistant.model
    }

    /// Returns the findings in a home of the Python program, on the first run.
    #[must_use]
    pub fn first_run(&self) -> Option<&FirstRun> {
        self.first_run.as_ref()
    }

    /// Runs until `cancel` fires or the user asks for a restart, then shuts down in order: it stops
    /// receiving, gives running turns their grace period, sends replies, ends the channels and
    /// closes the ledger.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Channels`] if two channels have one name,
    /// [`RuntimeError::Commands`] if two commands have one name, [`RuntimeError::Agent`] if the
    /// bus gives no messages.
    pub async fn run(self, cancel: CancellationToken) -> Result<GatewayEnd, RuntimeError> {
        let bus: Arc<dyn Bus> = Arc::new(self.bus.clone());
        let ledger: Arc<dyn Ledger> = Arc::new(self.bus.clone());
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        let health = Arc::new(GatewayHealth {
            channels: Health::default(),
            started: self.started,
        });
        let observation = self.extensions.observe(&self.events);
        let parts = ControlParts {
            bus: bus.clone(),
            ledger: ledger.clone(),
            channels: health.clone(),
            session_editor: Arc::new(AgentSessionEditor(self.assistant.agent.clone())),
            subagents: Arc::new(AgentSubagents(self.assistant.agent.clone())),
            events: self.events,
            ending: ShutdownTokens {
                stop: cancel.clone(),
                restart: self.restart.requested().clone(),
            },
            about: self.about,
            unseen: Arc::new(UnseenJobResults(self.jobs)),
            media: self.media.root.join(nanobot_control::TERMINAL_CHANNEL),
        };
        let commands = commands::table(&self.restart, self.access, self.assistant.ledger)?;
        restart::send_confirmation(&self.data_dir, &*bus).await;
        let evidence = StepLog::open(self.data_dir.join(STEPS_FILE));
        // Before the channels start, so that they do not take messages that wait for terminals.
        let control = prepare(self.control, parts, cancel.clone()).await;
        let manager = ChannelManager::start(&ChannelManagerParts {
            bus: bus.clone(),
            ledger: ledger.clone(),
            channels: self.reload.built(),
            refused: self.reload.refused(),
            media: self.media,
            notes: self.notes,
            stickers: self.stickers,
            transcriber: self.transcriber,
            commands: commands.infos().collect(),
            suspects: evidence.suspects(),
            watch: self.assistant.audit.clone(),
            health: health.channels.clone(),
            cancel: end.clone(),
            tasks: tasks.clone(),
        })?;
        if let Some(control) = control {
            tasks.spawn(control.run(end.clone()));
        }
        let watch = FileWatch::new();
        let filter = Some(self.background.reply_filter());
        let background_parts = BackgroundParts {
            bus: &self.bus,
            agent: &self.assistant.agent,
            health: &health.channels,
            watch: &watch,
            cancel: &cancel,
            end: &end,
        };
        self.background.start(&tasks, &background_parts);
        let serving = tasks.spawn(self.server.serve(health, end.child_token()));
        let mcp = self.assistant.mcp.clone();
        let turns = AgentLoop::with_commands(
            self.assistant.agent,
            bus,
            ledger.clone(),
            LoopSettings::default(),
            commands,
            filter,
        )
        .with_evidence(evidence);
        // As a task, because the thread that waits for this function is no worker: each message would
        // wake it, and it the workers.
        let until = cancel.clone();
        let turns = tasks.spawn(async move { turns.run(until).await });
        let turns = AbortOnDropHandle::new(turns);
        let requested = self.restart.requested().clone();
        let close_intake = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = requested.cancelled() => cancel.cancel(),
            }
            manager.close_intake();
        };
        let reloading = cancel.run_until_cancelled(self.reload.run(&manager, &watch));
        let (outcome, (), _) = tokio::join!(end_with(turns, &cancel), close_intake, reloading);
        tokio::join!(stop_channels(manager), mcp.close());
        end.cancel();
        end_tasks(serving, observation, &tasks).await;
        self.bus.close().await;
        outcome?;
        Ok(if requested.is_cancelled() {
            GatewayEnd::ToRestart
        } else {
            GatewayEnd::Stopped
        })
    }
}

/// Opens the socket for other commands; `None` if it cannot be opened.
async fn listen(path: &Path) -> Option<ControlServer> {
    match ControlServer::bind(path).await {
        Ok(control) => Some(control),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "no control socket: other commands cannot reach this gateway"
            );
            None
        }
    }
}

/// Claims the messages for terminals, if there is a socket.
async fn prepare(
    server: Option<ControlServer>,
    parts: ControlParts,
    closing: CancellationToken,
) -> Option<RunningControl> {
    match server?.prepare(parts, closing).await {
        Ok(control) => Some(control),
        Err(error) => {
            tracing::error!(%error, "the control socket failed: other commands cannot reach this gateway");
            None
        }
    }
}

/// Sends the remaining replies, up to the grace period, and ends the channels.
async fn stop_channels(manager: ChannelManager) {
    if !manager.flush(FLUSH_GRACE).await {
        tracing::warn!("some replies were not sent; they are kept for the next start");
    }
    manager.stop().await;
}

/// Waits for the health endpoint, and for the other tasks up to the grace period.
async fn end_tasks(serving: JoinHandle<()>, observation: Observation, tasks: &TaskTracker) {
    serving
        .await
        .unwrap_or_else(|error| tracing::error!(%error, "the health endpoint failed"));
    tasks.close();
    let ending = async { tokio::join!(observation.finish(), tasks.wait()) };
    if tokio::time::timeout(END_GRACE, ending).await.is_err() {
        tracing::warn!("a task did not end in time; abandoning it");
    }
}

/// Cancels everything else when the agent loop ends.
async fn end_with(
    turns: AbortOnDropHandle<Result<(), AgentError>>,
    cancel: &CancellationToken,
) -> Result<(), AgentError> {
    let outcome = turns.await;
    cancel.cancel();
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(outcome) => outcome,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_aborted)) => Ok(()),
    }
}

/// Returns the stickers of the workspace, restricted to files that tools may read.
fn stickers(runtime: &Runtime) -> Result<Stickers, RuntimeError> {
    let config = runtime.config();
    let (tools, workspace): (ToolsConfig, _) = (config.section("tools")?, config.workspace()?);
    let policy = Arc::new(PathPolicy::new(path_rules(runtime, &tools, &workspace)?));
    Ok(Stickers::in_folder(workspace.join("stickers"), outbox_folder(config)).within(policy))
}
