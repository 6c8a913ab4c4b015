//! `nanobot config`: the file in use, what is in force, and who said so.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_config::{Environment, Paths};
use nanobot_runtime::RuntimeBuilder;

use crate::failure::Failure;
use crate::{output, serve};

/// What can be asked of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// The file in use
    Path,
    /// Everything in force, secrets hidden
    Show,
    /// Who set a key, and what else was said about it
    Explain {
        /// A key such as `agents.defaults.model`, or a section
        key: String,
    },
}

/// Answers a question about the configuration.
///
/// # Errors
/// When the configuration cannot be read, or has no such key.
pub(crate) fn config(
    program: &RuntimeBuilder,
    command: &ConfigCommand,
) -> Result<ExitCode, Failure> {
    match command {
        // Works without a readable file, which is when one wants to know where it is.
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
