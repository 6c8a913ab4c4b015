//! Status of a home. No model is called unless that is asked for.

use std::fmt;
use std::path::PathBuf;

use chrono::DateTime;
use nanobot_bus::LedgerFilter;
use nanobot_config::Config;
use nanobot_control::{ControlClient, GatewayInfo};
use nanobot_cron::{Jobs, format_time};
use nanobot_heartbeat::HeartbeatSettings;
use nanobot_server::ServerConfig;
use nanobot_tools::{SandboxProfile, ToolsConfig};
use serde::Serialize;

use super::backlogs::Backlogs;
use super::channel_status::{RunningChannels, reports};
use crate::assembly::cron::JobScheduling;
use crate::assembly::model;
use crate::assembly::provider_sections::{self, ProviderStatus};
use crate::assembly::sandbox;
use crate::assembly::without_effect::settings_without_effect;
use crate::error::chain;
use crate::gateway::retention::size_of;
use crate::operator::doctor::models::probe_model;
use crate::operator::{mcp, remote};
use crate::{ChannelReport, Inbox, Runtime, RuntimeError, session_store};

/// Maximum number of entries to count.
const MAX_COUNTED: usize = 10_000;

/// A path, and whether it exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathStatus {
    /// The path.
    pub path: PathBuf,
    /// Set when the path exists.
    pub exists: bool,
}

/// The gateway that runs in this home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatewayStatus {
    /// Its process id.
    pub pid: u32,
    /// Its version. After an update it is older than this program's until the gateway is restarted.
    pub version: String,
    /// The model that it uses.
    pub model: String,
}

impl GatewayStatus {
    fn of(gateway: &ControlClient) -> Self {
        let GatewayInfo {
            version,
            pid,
            model,
            ..
        } = gateway.about().clone();
        Self {
            pid,
            version,
            model,
        }
    }
}

/// Numbers of messages that may need attention. Each is counted up to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MessageCounts {
    /// Messages that are not settled.
    pub pending: usize,
    /// Messages that may have been sent.
    pub uncertain: usize,
    /// Messages that failed and are not tried again.
    pub failed: usize,
}

/// Scheduled work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Number of jobs that are not paused; `None` if the file of jobs cannot be read.
    pub jobs: Option<usize>,
    /// Time of the next run, in the assistant's time zone.
    pub next: Option<String>,
    /// Interval of the heartbeat, in seconds; `None` if it is off.
    pub heartbeat_s: Option<u64>,
}

/// Disk usage of a home, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// The state database, with its log.
    pub state_db: u64,
    /// Files that came with messages.
    pub media: u64,
    /// Logs.
    pub logs: u64,
}

/// Status of a home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The version of this program.
    pub version: String,
    /// The configuration file.
    pub config: PathStatus,
    /// The workspace.
    pub workspace: PathStatus,
    /// The configured model.
    pub model: String,
    /// Result of asking that model; `None` if it was not asked.
    pub model_answers: Option<String>,
    /// The gateway that answers on the home's socket.
    pub gateway: Option<GatewayStatus>,
    /// Error and remedy, if the gateway that has the home does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_fault: Option<String>,
    /// Providers that have something configured.
    pub providers: Vec<ProviderStatus>,
    /// Channels.
    pub channels: Vec<ChannelReport>,
    /// Number of sessions in the workspace.
    pub sessions: usize,
    /// Messages that wait for consent to be summarised.
    pub backlogs: Backlogs,
    /// Messages; `None` if the ledger does not answer.
    pub messages: Option<MessageCounts>,
    /// Scheduled work, which a running gateway does.
    pub schedule: Schedule,
    /// Disk usage.
    pub storage: Storage,
    /// Settings that are less safe than they could be.
    pub warnings: Vec<String>,
}

impl Status {
    /// Collects the status of a home. With `probe`, the model is asked a question of a few tokens.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be used.
    pub async fn of(runtime: &Runtime, probe: bool) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let workspace = config.workspace()?;
        let config_file = config.paths().config_file.clone();
        let sessions = session_store(config)?.list().await.unwrap_or_default();
        let tools: ToolsConfig = config.section("tools")?;
        let _: ServerConfig = config.section("gateway")?;
        model::check(runtime)?;
        let (gateway, running, gateway_fault) = match remote::connect(config).await {
            Ok(gateway) => {
                let running = RunningChannels::of(gateway.as_ref()).await;
                (gateway, running, None)
            }
            Err(error) => (None, RunningChannels::Silent, Some(fault(&error))),
        };
        let mut warnings: Vec<String> = config.findings().iter().map(ToString::to_string).collect();
        warnings.extend(settings_without_effect(config)?);
        let servers = mcp::problems(runtime)?.into_iter();
        warnings.extend(servers.map(|(what, remedy)| format!("{what}. {remedy}")));
        if !tools.restrict_to_workspace {
            warnings.push(
                "tools.restrictToWorkspace is false: tools may read and write files everywhere"
                    .to_owned(),
            );
        }
        if tools.exec.enable && tools.exec.sandbox == SandboxProfile::Off {
            warnings.push(sandbox::OFF.to_owned());
        }
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: PathStatus {
                exists: config_file.exists(),
                path: config_file,
            },
            workspace: PathStatus {
                exists: workspace.exists(),
                path: workspace,
            },
            model: model::describe(runtime)?,
            model_answers: if probe {
                Some(probe_model(runtime).await?)
            } else {
                None
            },
            gateway: gateway.as_ref().map(GatewayStatus::of),
            providers: provider_sections::providers(config)?,
            channels: reports(runtime, running, false).await?,
            sessions: sessions.len(),
            backlogs: Backlogs::of(&sessions),
            messages: if gateway_fault.is_none() {
                count_messages(config).await
            } else {
                None
            },
            gateway_fault,
            schedule: schedule(config)?,
            storage: storage(config),
            warnings,
        })
    }
}

/// Formats an error with its remedy in one line.
fn fault(error: &RuntimeError) -> String {
    match error.remedy() {
        Some(remedy) => format!("{}. {remedy}", chain(error)),
        None => chain(error),
    }
}

async fn count_messages(config: &Config) -> Option<MessageCounts> {
    let counted = async {
        let inbox = Inbox::open(config).await?;
        let of = async |filter| {
            Ok::<_, RuntimeError>(inbox.entries(&[filter], MAX_COUNTED).await?.len())
        };
        let counts = MessageCounts {
            pending: of(LedgerFilter::Open).await?,
            uncertain: of(LedgerFilter::Uncertain).await?,
            failed: of(LedgerFilter::Failed).await?,
        };
        inbox.close().await;
        Ok::<_, RuntimeError>(counts)
    };
    counted
        .await
        .map_err(|error| tracing::debug!(%error, "the ledger does not answer"))
        .ok()
}

fn schedule(config: &Config) -> Result<Schedule, RuntimeError> {
    let heartbeat: HeartbeatSettings = config.section("gateway.heartbeat")?;
    let scheduling = JobScheduling::of(config)?;
    let jobs = scheduling.store.read().ok();
    let due = jobs
        .iter()
        .flat_map(Jobs::iter)
        .filter(|job| job.enabled)
        .filter_map(|job| job.state.next_run_at_ms);
    let next = due.min().and_then(DateTime::from_timestamp_millis);
    Ok(Schedule {
        jobs: jobs
            .as_ref()
            .map(|jobs| jobs.iter().filter(|job| job.enabled).count()),
        next: next.map(|at| format_time(at, scheduling.zone)),
        heartbeat_s: heartbeat.enabled.then_some(heartbeat.interval_s),
    })
}

fn storage(config: &Config) -> Storage {
    let paths = config.paths();
    let file = |suffix: &str| {
        let mut path = paths.state_db.clone().into_os_string();
        path.push(suffix);
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    };
    Storage {
        state_db: file("") + file("-wal"),
        media: size_of(&paths.media),
        logs: size_of(&paths.logs),
    }
}

/// Formats a duration in its largest suitable unit.
fn format_interval(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// Formats a size in its largest suitable unit.
fn format_bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => (1024, "KiB"),
        1_048_576..1_073_741_824 => (1_048_576, "MiB"),
        _ => (1_073_741_824, "GiB"),
    };
    let tenths = (bytes % unit) * 10 / unit;
    format!("{}.{tenths} {name}", bytes / unit)
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |exists: bool| if exists { "✓" } else { "✗" };
        writeln!(f, "🐈 nanobot {}", self.version)?;
        writeln!(
            f,
            "Config: {} {}",
            self.config.path.display(),
            mark(self.config.exists)
        )?;
        writeln!(
            f,
            "Workspace: {} {}",
            self.workspace.path.display(),
            mark(self.workspace.exists)
        )?;
        writeln!(f, "Model: {}", self.model)?;
        if let Some(answers) = &self.model_answers {
            writeln!(f, "  asked just now: {answers}")?;
        }
        match (&self.gateway, &self.gateway_fault) {
            (_, Some(fault)) => writeln!(f, "Gateway: {fault}")?,
            (
                Some(GatewayStatus {
                    pid,
                    version,
                    model,
                }),
                None,
            ) => {
                writeln!(
                    f,
                    "Gateway: running (pid {pid}, version {version}), answering with {model}"
                )?;
            }
            (None, None) => writeln!(f, "Gateway: not running")?,
        }
        for provider in &self.providers {
            writeln!(f, "{}: {}", provider.label, provider.state)?;
        }
        for channel in &self.channels {
            writeln!(f, "Channel {channel}")?;
        }
        writeln!(f, "Sessions: {}", self.sessions)?;
        self.write_backlogs(f)?;
        match &self.messages {
            Some(MessageCounts {
                pending,
                uncertain,
                failed,
            }) => {
                writeln!(
                    f,
                    "Messages: {pending} pending, {uncertain} uncertain, {failed} failed"
                )?;
            }
            None => writeln!(f, "Messages: unknown (the ledger does not answer)")?,
        }
        self.write_schedule(f)?;
        let Storage {
            state_db,
            media,
            logs,
        } = self.storage;
        write!(
            f,
            "On disk: state {}, media {}, logs {}",
            format_bytes(state_db),
            format_bytes(media),
            format_bytes(logs)
        )?;
        for warning in &self.warnings {
            write!(f, "\nWarning: {warning}")?;
        }
        Ok(())
    }
}

impl Status {
    fn write_backlogs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.backlogs.is_empty() {
            return Ok(());
        }
        writeln!(f, "Not summarised: {}", self.backlogs)?;
        for session in &self.backlogs.largest {
            writeln!(f, "  {session}")?;
        }
        if let Some(more) = self.backlogs.unlisted() {
            writeln!(f, "  {more}")?;
        }
        writeln!(f, "  {}", self.backlogs.remedy())
    }

    fn write_schedule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Schedule {
            jobs,
            next,
            heartbeat_s,
        } = &self.schedule;
        match (jobs, next) {
            (None, _) => writeln!(f, "Jobs: unknown (`nanobot doctor` says why)")?,
            (Some(jobs), None) => writeln!(f, "Jobs: {jobs}")?,
            (Some(jobs), Some(next)) => writeln!(f, "Jobs: {jobs}, the next at {next}")?,
        }
        match heartbeat_s {
            Some(seconds) => writeln!(f, "Heartbeat: every {}", format_interval(*seconds)),
            None => writeln!(f, "Heartbeat: off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_amounts_use_the_largest_fitting_unit() {
        let shown = [0, 1023, 1024, 1_600, 5 << 20, (1 << 30) + (1 << 29)].map(format_bytes);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "1.5 GiB"]
        );
    }
}
