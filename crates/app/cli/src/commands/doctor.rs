//! `nanobot doctor`: finds problems that keep the assistant from working, and their remedies.

use std::process::ExitCode;

use clap::Args;
use nanobot_runtime::doctor::{DoctorOptions, examine};
use nanobot_runtime::{RuntimeBuilder, install_tls};
use serde_json::json;

use super::{block_on, prepare_write};
use crate::failure::CommandFailure;
use crate::output;

/// Options of `doctor`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Fix what can be fixed without losing data
    #[arg(long)]
    fix: bool,
    /// Check the credentials with the model and every platform, which costs a few tokens
    #[arg(long)]
    probe: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Prints the findings. The exit code is 1 if any of them is a fault.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn doctor(
    program: &RuntimeBuilder,
    arguments: &DoctorArguments,
) -> Result<ExitCode, CommandFailure> {
    let DoctorArguments { fix, probe, json } = *arguments;
    install_tls();
    if fix
        && let Ok(runtime) = program.build()
        && let Err(failure) = block_on(prepare_write(&runtime))
    {
        // The examination reports the cause.
        output::note(&failure.to_string());
    }
    let checkup = block_on(async { Ok(examine(program, DoctorOptions { fix, probe }).await) })?;
    if json {
        let shown = json!({ "healthy": checkup.is_healthy(), "findings": checkup.findings });
        output::line(&crate::commands::json(&shown).map_err(std::io::Error::from)?)?;
    } else {
        output::line(&checkup.to_string())?;
    }
    Ok(if checkup.is_healthy() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
