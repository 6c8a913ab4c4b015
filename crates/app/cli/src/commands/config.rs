//! `nanobot config`: shows, explains and changes the configuration.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_config::{Config, ConfigEdit, Environment, Explanation, Paths, SavedConfig};
use nanobot_runtime::{EffectTime, RuntimeBuilder, RuntimeError, check_edit};
use serde_json::Value;

use super::{block_on, prepare_write, report_schema};
use crate::failure::{CommandFailure, USAGE, chain};
use crate::signals::Signals;
use crate::{ask, output, serve};

/// Subcommands of `nanobot config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the path of the file in use
    Path,
    /// Print all values in force, with secrets redacted
    Show,
    /// Show meaning, type, default and source of a key, or list the keys of a section
    Explain {
        /// Key such as `agents.defaults.model`, or section
        key: String,
    },
    /// Set a key in the file; everything else in it is kept
    Set {
        /// Key such as `agents.defaults.model`
        key: String,
        /// Value: text as it is, anything else as JSON; `${NAME}` refers to a variable
        #[arg(required_unless_present = "stdin", allow_hyphen_values = true)]
        value: Option<String>,
        /// Read the value from standard input, without echo; for secrets
        #[arg(long, conflicts_with = "value")]
        stdin: bool,
    },
    /// Remove a key or a section from the file
    Unset {
        /// Key such as `agents.defaults.model`
        key: String,
    },
    /// Print a JSON Schema of the file, for editors
    Schema {
        /// Write it to `config.schema.json` beside the file instead
        #[arg(long)]
        write: bool,
    },
    /// Print the reference of all keys as Markdown
    #[command(hide = true)]
    Reference,
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the configuration cannot be read or written, has no such key, or cannot be
/// used with the new value.
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
            output::line(&explained(&explanations))?;
        }
        ConfigCommand::Set { key, value, .. } => return set(program, key, value.as_deref()),
        ConfigCommand::Unset { key } => {
            let runtime = program.build()?;
            write(program, &runtime.config().edit_out(key)?)?;
        }
        ConfigCommand::Schema { write: true } => write_schema(program)?,
        ConfigCommand::Schema { write: false } => {
            let schema = program.build()?.config().json_schema();
            output::line(&crate::commands::json(&schema).map_err(std::io::Error::from)?)?;
        }
        ConfigCommand::Reference => {
            output::write(&program.build()?.config().reference())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One key is explained in full, the keys of a section in a few lines each.
fn explained(explanations: &[Explanation]) -> String {
    match explanations {
        [one] => one.to_string(),
        several => {
            let texts: Vec<String> = several.iter().map(Explanation::summary).collect();
            texts.join("\n")
        }
    }
}

fn set(
    program: &RuntimeBuilder,
    key: &str,
    value: Option<&str>,
) -> Result<ExitCode, CommandFailure> {
    let program = &program.clone().may_be_missing();
    let runtime = program.build()?;
    let Some(value) = value else {
        // An unknown key is reported before the question.
        runtime.config().explain(key)?;
        let text = block_on(async {
            let mut signals = Signals::listen()?;
            tokio::select! {
                text = read_value(key) => text,
                code = signals.next() => Err(CommandFailure::Silent(code)),
            }
        })?;
        write(program, &runtime.config().edit_to(key, &text)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let edit = runtime.config().edit_to(key, value)?;
    if edit.is_secret && !value.is_empty() && !is_reference(&edit) {
        output::note(&format!(
            "warning: the value of {0} is visible in the history of the shell and in the list of processes; \
             `nanobot config set {0} --stdin` reads it without echo",
            edit.key
        ));
    }
    write(program, &edit)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a value from a pipe, or asks for it.
async fn read_value(key: &str) -> Result<String, CommandFailure> {
    let question = if ask::can_ask() {
        format!("Value of {key} (not shown): ")
    } else {
        String::new()
    };
    ask::secret(&question).await?.ok_or_else(|| {
        CommandFailure::new(
            format!("{key} was not changed: standard input is empty"),
            "Write the value on one line.",
        )
    })
}

/// `true` if the new value is a reference, which is no secret.
fn is_reference(edit: &ConfigEdit) -> bool {
    let text = edit.new.as_ref().and_then(Value::as_str);
    text.is_some_and(|text| text.starts_with("${"))
}

/// Checks a change, writes it, and reports it.
fn write(program: &RuntimeBuilder, edit: &ConfigEdit) -> Result<(), CommandFailure> {
    let runtime = program.build()?;
    check_edit(&runtime, edit).map_err(|error: RuntimeError| CommandFailure::Said {
        what: format!("nothing was written: {}", chain(&error)),
        remedy: error.remedy().or_else(|| {
            Some(format!(
                "`nanobot config explain {}` shows the meaning of the key.",
                edit.key
            ))
        }),
        code: USAGE,
    })?;
    if runtime.config().is_first_run() {
        block_on(prepare_write(&runtime))?;
    }
    let file = runtime.config().paths().config_file.display().to_string();
    let saved = edit.save(chrono::Utc::now())?;
    let backup = match saved {
        SavedConfig::Unchanged => {
            output::line(&format!(
                "{file} already has this value; nothing was written."
            ))?;
            return Ok(());
        }
        SavedConfig::Written { backup } => backup,
        _ => None,
    };
    output::line(&format!("{}: {} → {}", edit.key, before(edit), after(edit)))?;
    output::line(&match backup {
        Some(backup) => format!("Written to {file}; the old file is {}.", backup.display()),
        None => format!("Written to {file}."),
    })?;
    output::line(&EffectTime::of(&edit.key).to_string())?;
    if let Some(origin) = &edit.overridden_by {
        output::note(&format!(
            "warning: {origin} takes precedence over the file, so this has no effect while it is set"
        ));
    }
    let changed = program.build()?;
    report_schema(changed.config().refresh_schema())?;
    let explanations = changed.config().explain(&edit.key).unwrap_or_default();
    for reference in explanations.iter().flat_map(|one| &one.references) {
        if !reference.is_set {
            output::note(&format!("warning: {reference}; set it where nanobot runs"));
        }
    }
    Ok(())
}

/// Writes the schema beside the file, and tells how the file names it.
fn write_schema(program: &RuntimeBuilder) -> Result<(), CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    let file = config.paths().config_file.display();
    if !config.has_file() {
        return Err(CommandFailure::usage(
            format!("there is no {file}, so nothing was written"),
            "`nanobot onboard` creates both files.",
        ));
    }
    block_on(prepare_write(&runtime))?;
    let (schema, is_new) = config.write_schema()?;
    output::line(&match is_new {
        true => format!("✓ Wrote {}", schema.display()),
        false => format!("✓ {} needed nothing", schema.display()),
    })?;
    if !config.names_schema() {
        output::line(&format!(
            "Editors use it if the first line below {{ in {file} is:\n  {},",
            Config::schema_line()
        ))?;
    }
    Ok(())
}

fn before(edit: &ConfigEdit) -> String {
    match &edit.old {
        Some(value) => value.to_string(),
        None => or_default(edit),
    }
}

fn after(edit: &ConfigEdit) -> String {
    match &edit.new {
        Some(value) => value.to_string(),
        None => or_default(edit),
    }
}

/// Describes the value of a key that is not in the file.
fn or_default(edit: &ConfigEdit) -> String {
    match &edit.default {
        Some(value) if !value.is_null() && !value.is_object() => format!("{value} (default)"),
        _ => "(not set)".to_owned(),
    }
}
