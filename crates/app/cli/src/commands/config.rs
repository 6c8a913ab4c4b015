//! `nanobot config`: shows the file in use, the effective values, and their sources.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_config::{Environment, Paths};
use nanobot_runtime::RuntimeBuilder;

use crate::failure::CommandFailure;
use crate::{output, serve};

/// Subcommands of `nanobot config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the path of the file in use
    Path,
    /// Print all values in force, with secrets redacted
    Show,
    /// Show the source of a key's value, and the values that it overrides
    Explain {
        /// Key such as `agents.defaults.model`, or section
        key: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the configuration cannot be read, or has no such key.
pub(crate) fn config(
    program: &RuntimeBuilder,
    command: &ConfigCommand,
) -> Result<ExitCode, CommandFailure> {
    match command {
        // Works even if the file is unreadable: then the user needs to know where it is.
        ConfigCommand::Path => {
            let paths = Paths::resolve(
                &Environment::of_process(),
                program.load_options().config.as_deref(),
            )?;
            output::line(&paths.config_file.display().to_string())?;
        }
        ConfigCommand::Show => {
            let runtime = program.build()?;
            let config = runtime.config();
            serve::warn_of_findings(config);
            output::line(&crate::commands::json(&config.show()).map_err(std::io::Error::from)?)?;
        }
        ConfigCommand::Explain { key } => {
            let explanations = program.build()?.config().explain(key)?;
            let texts: Vec<String> = explanations.iter().map(ToString::to_string).collect();
            output::line(&texts.join("\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
