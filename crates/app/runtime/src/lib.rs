//! Builds the assistant from its configuration, supervises it, and shuts it down.
//!
//! Decision: this is the only crate that knows names: which key of the configuration belongs to
//! which part, which platforms and vendors there are. Binaries above it parse arguments and
//! print; everything below it knows nothing of configuration files.

mod access;
mod assistant;
mod audit;
mod background;
mod budget;
mod channels;
mod commands;
mod cron;
mod cuts;
pub mod doctor;
mod error;
mod fences;
mod gateway;
mod hardening;
mod health;
mod heartbeat;
mod inbox;
mod keeping;
mod load;
mod model;
mod onboard;
mod pairing;
mod platforms;
mod prompts;
mod recollection;
mod remote;
mod replay;
mod restart;
mod rotating;
mod secrets;
mod settings;
mod skills;
mod status;
mod tasks_file;
mod terminal;
mod transcription;
mod visit;

pub use self::cron::Scheduling;
pub use access::{HomeAccess, Revoked};
pub use channels::{
    ChannelLogin, ChannelReport, ChannelTest, LifecycleNotices, PendingLesson, Probed, TestOutcome,
    channels_status,
};
pub use commands::{command_infos, is_command};
pub use cuts::cuts;

pub use error::RuntimeError;
pub use gateway::{Ended, Gateway};
pub use hardening::{harden_process, tighten};
pub use inbox::Inbox;
pub use keeping::RetentionSettings;
pub use load::{LoadOptions, install_tls, load, load_in};
pub use model::{ModelChoice, ModelSource};
pub use onboard::{OnboardMode, OnboardPlan, OnboardReport, onboard, plan_onboarding};
pub use prompts::last_miss;
pub use recollection::{memory_store, search_index};
pub use remote::RemoteGateway;
pub use replay::replay_options;
pub use rotating::{LogSettings, RotatingFile};
pub use secrets::{RedactedWriter, secrets};
pub use settings::AgentDefaults;
pub use skills::{skills, unagreed_skills};
pub use status::Status;
pub use tasks_file::OlderTasks;
pub use terminal::{Answer, Terminal, TerminalOptions, TerminalProgress, ask};
pub use visit::FirstVisit;

pub use nanobot_agent_core::{
    Bundle, Redactor, TurnChoice, TurnReplay, is_subagent_session, replay_session,
};
pub use nanobot_bus as bus;
pub use nanobot_channel::Credential;
pub use nanobot_channels::{
    AccessNotice, AccessRules, PairingError, PairingStore, Pairings, PendingPairing, Person, Weight,
};
pub use nanobot_control::{About, ChannelState, CutError, Cuts, TerminalEvent};
pub use nanobot_cron as jobs;
pub use nanobot_extract::enter;
pub use nanobot_memory as memory;
pub use nanobot_redact::Secrets;
pub use nanobot_session as session;
pub use nanobot_skills::{
    Blocker, Change, Consent, ConsentPlan, Finding, Found, InstallPlan, Package, Skill,
    SkillOrigin, Skills, SkillsError, Standing,
};
pub use nanobot_types as types;

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_config::Config;
use nanobot_session::{Durability, JsonlStore, SessionPaths, SessionStore};
use nanobot_state::Survives;

use crate::settings::SessionsConfig;

/// Where the gateway of a home listens for other commands.
fn control_socket(config: &Config) -> PathBuf {
    config.paths().data_dir.join(nanobot_control::SOCKET)
}

/// The log of a gateway; nothing is opened yet.
///
/// # Errors
/// [`RuntimeError::Config`] when `logs` cannot be used.
pub fn gateway_log(config: &Config) -> Result<RotatingFile, RuntimeError> {
    Ok(RotatingFile::new(
        config.paths().logs.join("gateway.log"),
        config.section("logs")?,
    ))
}

/// The sessions of a configuration's workspace.
///
/// # Errors
/// [`RuntimeError::Config`] when the workspace cannot be told, or `sessions` cannot be used.
pub fn session_store(config: &Config) -> Result<Arc<dyn SessionStore>, RuntimeError> {
    let paths = config.paths();
    let workspace = config.workspace()?;
    let settings: SessionsConfig = config.section("sessions")?;
    let sessions = SessionPaths::discover(&workspace, &paths.data_dir, &paths.home);
    Ok(Arc::new(
        JsonlStore::new(sessions).with_durability(settings.durability),
    ))
}

/// What the ledger of a gateway survives: as much as its sessions.
fn ledger_survives(config: &Config) -> Result<Survives, RuntimeError> {
    Ok(
        match config.section::<SessionsConfig>("sessions")?.durability {
            Durability::Disk => Survives::PowerCut,
            Durability::Os => Survives::ProcessEnd,
        },
    )
}
