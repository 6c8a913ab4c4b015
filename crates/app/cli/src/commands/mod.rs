//! The commands, one file each, with its arguments and its implementation. Each loads the
//! configuration, does one thing and reports the result.

mod agent;
mod approvals;
mod audit;
mod channels;
mod completions;
mod config;
mod cron;
mod doctor;
mod gateway;
mod inbox;
mod manual;
mod mcp;
mod memory;
mod models;
mod onboard;
mod pairing;
mod provider;
mod replay;
mod sessions;
mod skills;
mod status;
mod tools;
mod transcript;
mod update;
mod usage;

pub(crate) use agent::{AgentArguments, agent};
pub(crate) use approvals::{ApprovalsCommand, approvals};
pub(crate) use audit::{AuditArguments, audit};
pub(crate) use channels::{ChannelsCommand, channels};
pub(crate) use completions::{CompletionsArguments, completions};
pub(crate) use config::{ConfigCommand, config};
pub(crate) use cron::{CronCommand, cron};
pub(crate) use doctor::{DoctorArguments, doctor};
pub(crate) use gateway::{GatewayArguments, gateway};
pub(crate) use inbox::{InboxArguments, inbox};
pub(crate) use manual::{ManualArguments, manual};
pub(crate) use mcp::{McpCommand, mcp};
pub(crate) use memory::{MemoryCommand, memory};
pub(crate) use models::{ModelsCommand, models};
pub(crate) use onboard::{OnboardArguments, onboard};
pub(crate) use pairing::{PairingCommand, pairing};
pub(crate) use provider::{ProviderCommand, provider};
pub(crate) use replay::{REPLAY_ABOUT, ReplayArguments, replay};
pub(crate) use sessions::{
    ExportFormat, SessionsCommand, edit_failed as session_edit_failure, export_to, sessions,
};
pub(crate) use skills::{SkillsCommand, skills};
pub(crate) use status::{StatusArguments, status};
pub(crate) use tools::{ToolsCommand, tools};
pub(crate) use update::{UPDATE_ABOUT, UpdateArguments, update};
pub(crate) use usage::{UsageArguments, usage};

use std::path::PathBuf;

use nanobot_config::ConfigError;
use nanobot_runtime::{FirstRun, Runtime};

use crate::failure::CommandFailure;
use crate::output;

/// Runs a command's future on this thread.
fn block_on<T>(
    future: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            CommandFailure::new(
                format!("cannot start: {error}"),
                "Check the limits of this process (ulimit -a).",
            )
        })?;
    let outcome = runtime.block_on(future);
    // A tool that hangs must not keep the process from ending.
    runtime.shutdown_background();
    outcome
}

/// Prepares a home for the first write: reports on a home of the Python program, copies its
/// configuration, and marks the home.
///
/// # Errors
/// Returns the errors of [`FirstRun::perform`], or an error if consent cannot be asked for.
async fn prepare_write(runtime: &Runtime) -> Result<(), CommandFailure> {
    let Some(first_run) = FirstRun::perform(runtime.config()).await? else {
        return Ok(());
    };
    output::note(&first_run.to_string());
    if output::is_interactive() {
        skills::ask_at_first_run(runtime)?;
    }
    Ok(())
}

/// Reports the refresh of the configuration's schema. A failure is a warning, because only editors
/// miss the file.
///
/// # Errors
/// Returns an error if the output cannot be written.
fn report_schema(refreshed: Result<Option<PathBuf>, ConfigError>) -> Result<(), CommandFailure> {
    match refreshed {
        Ok(None) => {}
        Ok(Some(file)) => output::line(&format!("✓ Wrote {} for editors", file.display()))?,
        Err(error) => {
            let failure = CommandFailure::from(error).to_string();
            let text = failure.strip_prefix("nanobot: ").unwrap_or(&failure);
            output::note(&format!("warning: {text}"));
        }
    }
    Ok(())
}

/// Formats a value as indented JSON. Hidden characters become JSON escapes.
///
/// # Errors
/// Returns the error of the value's `Serialize` implementation.
pub(crate) fn json(value: &impl serde::Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|json| nanobot_escape::visible_json(&json))
}
