//! How a home stands, without asking any model.

use std::fmt;
use std::path::PathBuf;

use chrono::DateTime;
use nanobot_bus::LedgerFilter;
use nanobot_config::Config;
use nanobot_control::{About, ControlClient};
use nanobot_cron::{Jobs, in_words};
use nanobot_heartbeat::HeartbeatSettings;
use nanobot_tools::ToolsConfig;
use serde::Serialize;

use super::channel_status::{Running, reports};
use crate::assembly::cron::Scheduling;
use crate::assembly::model;
use crate::error::chain;
use crate::gateway::retention::size_of;
use crate::operator::doctor::models::answers;
use crate::operator::remote;
use crate::{ChannelReport, Inbox, Runtime, RuntimeError, session_store};

/// More entries than this are not counted.
const COUNTED: usize = 10_000;

/// A path and whether something is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The path.
    pub path: PathBuf,
    /// Something is there.
    pub exists: bool,
}

/// A gateway that runs in this home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatewayStatus {
    /// Its process.
    pub pid: u32,
    /// Its version, which is older than this program's until it is restarted.
    pub version: String,
    /// Who answers there.
    pub model: String,
}

impl GatewayStatus {
    fn of(gateway: &ControlClient) -> Self {
        let About {
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

/// A provider of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// Its name for people.
    pub label: String,
    /// What is set: a key, an address, or nothing.
    pub state: String,
}

/// How many messages stand in a way that somebody may want to look at. Counted up to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MessageCounts {
    /// Not settled.
    pub pending: usize,
    /// Perhaps sent.
    pub uncertain: usize,
    /// Not done, and not tried again.
    pub failed: usize,
}

/// What is done without being asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Jobs that are not paused; `None` when the file of jobs cannot be read.
    pub jobs: Option<usize>,
    /// When the next one is due, as the clock shows it where the assistant lives.
    pub next: Option<String>,
    /// Seconds from one look at `HEARTBEAT.md` to the next; `None` where nobody looks.
    pub heartbeat_s: Option<u64>,
}

/// What a home takes on disk, in bytes.
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

/// How a home stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The version of this program.
    pub version: String,
    /// The configuration file.
    pub config: Place,
    /// The workspace.
    pub workspace: Place,
    /// Who would answer, as far as the configuration says.
    pub model: String,
    /// Whether that model answers; `None` when it was not asked.
    pub model_answers: Option<String>,
    /// The gateway that answers on the home's socket.
    pub gateway: Option<GatewayStatus>,
    /// Why the gateway that has the home does not answer, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_fault: Option<String>,
    /// Providers with something set.
    pub providers: Vec<ProviderStatus>,
    /// Channels.
    pub channels: Vec<ChannelReport>,
    /// Sessions in the workspace.
    pub sessions: usize,
    /// Messages; `None` when the ledger does not answer.
    pub messages: Option<MessageCounts>,
    /// What is done without being asked, while a gateway runs.
    pub schedule: Schedule,
    /// What it takes on disk.
    pub storage: Storage,
    /// What is less safe than it could be.
    pub warnings: Vec<String>,
}

impl Status {
    /// Looks at a home; with `probe` the model is asked a question of a few tokens.
    ///
    /// # Errors
    /// [`RuntimeError::Config`].
    pub async fn of(runtime: &Runtime, probe: bool) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let workspace = config.workspace()?;
        let config_file = config.paths().config_file.clone();
        let sessions = session_store(config)?
            .list()
            .await
            .map(|list| list.len())
            .unwrap_or_default();
        let tools: ToolsConfig = config.section("tools")?;
        let (gateway, running, gateway_fault) = match remote::connect(config).await {
            Ok(gateway) => {
                let running = Running::of(gateway.as_ref()).await;
                (gateway, running, None)
            }
            Err(error) => (None, Running::Silent, Some(fault(&error))),
        };
        let mut warnings: Vec<String> = config.findings().iter().map(ToString::to_string).collect();
        if !tools.restrict_to_workspace {
            warnings.push(
                "tools.restrictToWorkspace is false: tools may read and write files everywhere"
                    .to_owned(),
            );
        }
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: Place {
                exists: config_file.exists(),
                path: config_file,
            },
            workspace: Place {
                exists: workspace.exists(),
                path: workspace,
            },
            model: model::describe(runtime)?,
            model_answers: if probe {
                Some(answers(runtime).await?)
            } else {
                None
            },
            gateway: gateway.as_ref().map(GatewayStatus::of),
            providers: model::providers(config)?,
            channels: reports(runtime, running, false).await?,
            sessions,
            messages: if gateway_fault.is_none() {
                count(config).await
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

/// An error with what to do about it, in one line.
fn fault(error: &RuntimeError) -> String {
    match error.remedy() {
        Some(remedy) => format!("{}. {remedy}", chain(error)),
        None => chain(error),
    }
}

async fn count(config: &Config) -> Option<MessageCounts> {
    let counted = async {
        let inbox = Inbox::open(config).await?;
        let of =
            async |filter| Ok::<_, RuntimeError>(inbox.entries(&[filter], COUNTED).await?.len());
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
    let scheduling = Scheduling::of(config)?;
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
        next: next.map(|at| in_words(at, scheduling.zone)),
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

/// A time between two events for people.
fn interval(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// Bytes for people.
fn amount(bytes: u64) -> String {
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
        let mark = |there: bool| if there { "✓" } else { "✗" };
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
            Some(seconds) => writeln!(f, "Heartbeat: every {}", interval(*seconds))?,
            None => writeln!(f, "Heartbeat: off")?,
        }
        let Storage {
            state_db,
            media,
            logs,
        } = self.storage;
        write!(
            f,
            "On disk: state {}, media {}, logs {}",
            amount(state_db),
            amount(media),
            amount(logs)
        )?;
        for warning in &self.warnings {
            write!(f, "\nWarning: {warning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        let shown = [0, 1023, 1024, 1_600, 5 << 20, (1 << 30) + (1 << 29)].map(amount);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "1.5 GiB"]
        );
    }
}
