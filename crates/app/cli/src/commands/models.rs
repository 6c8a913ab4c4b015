//! `nanobot models`: the models of the configuration, and why a provider serves one, with which
//! window.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_escape::sanitize_line;
use nanobot_runtime::{
    ConfiguredModel, RuntimeBuilder, configured_models, install_tls, model_route,
};

use crate::commands::{block_on, json as as_json};
use crate::failure::CommandFailure;
use crate::output;

/// Subcommands of `nanobot models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the default model, the fallbacks in their order, and the presets
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Explain which provider serves a model, by which rule, and with which window
    Why {
        /// A model, with or without its provider, or the name of a preset
        #[arg(value_name = "MODEL")]
        model: String,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

/// Runs a subcommand. The exit code is a failure if a listed fallback, or the explained model,
/// cannot be used.
///
/// # Errors
/// Returns an error if the configuration cannot be read, or no provider serves the model.
pub(crate) fn models(
    program: &RuntimeBuilder,
    command: ModelsCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let is_good = match command {
        ModelsCommand::List { json } => {
            let models = configured_models(&runtime)?;
            match json {
                true => write_json(&models)?,
                false => output::write(&models.iter().map(line).collect::<String>())?,
            }
            models.iter().all(|model| model.error.is_none())
        }
        ModelsCommand::Why { model, json } => {
            install_tls();
            let route = block_on(async { Ok(model_route(&runtime, &model).await?) })?;
            match json {
                true => write_json(&route)?,
                false => output::write(&route.to_string())?,
            }
            route.error.is_none()
        }
    };
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn write_json(value: &impl serde::Serialize) -> std::io::Result<()> {
    output::write_verbatim(&(as_json(value)? + "\n"))
}

fn line(model: &ConfiguredModel) -> String {
    let error = match &model.error {
        Some(error) => format!(": not usable: {error}"),
        None => String::new(),
    };
    let line = format!("{:<12} {}{error}", model.name, model.model);
    format!("{}\n", sanitize_line(&line))
}
