//! `nanobot status`: shows the status of a home. No model is called without `--probe`.

use std::process::ExitCode;

use clap::Args;
use nanobot_runtime::{RuntimeBuilder, Status};

use super::block_on;
use crate::failure::CommandFailure;
use crate::output;

/// Options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Send the model a test request, which costs a few tokens
    #[arg(long)]
    probe: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Prints the status.
///
/// # Errors
/// Returns an error if the configuration cannot be used.
pub(crate) fn status(
    program: &RuntimeBuilder,
    arguments: &StatusArguments,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    nanobot_runtime::install_tls();
    let status = block_on(async { Ok(Status::of(&runtime, arguments.probe).await?) })?;
    if arguments.json {
        output::line(&crate::commands::json(&status).map_err(std::io::Error::from)?)?;
    } else {
        output::line(&status.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
