//! `nanobot status`: how things are set up. No model is asked unless that is wanted.

use std::process::ExitCode;

use nanobot_runtime::{LoadOptions, Status, load};

use super::block_on;
use crate::failure::Failure;
use crate::output;

/// Prints the status.
///
/// # Errors
/// When the configuration cannot be used.
pub(crate) fn status(options: &LoadOptions, probe: bool, json: bool) -> Result<ExitCode, Failure> {
    let config = load(options)?;
    nanobot_runtime::install_tls();
    let status = block_on(async { Ok(Status::of(&config, probe).await?) })?;
    if json {
        output::line(&serde_json::to_string_pretty(&status).map_err(std::io::Error::from)?)?;
    } else {
        output::line(&status.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
