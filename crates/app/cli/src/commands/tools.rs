//! `nanobot tools`: the tools in files of the workspace.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_escape::sanitize;
use nanobot_runtime::{RuntimeBuilder, ToolFileState, ToolFileStatus, ToolFilesHome};

use crate::commands::{block_on, json as as_json};
use crate::failure::CommandFailure;
use crate::output;

/// Characters of a description in a list.
const MAX_DESCRIPTION: usize = 100;

/// Subcommands of `nanobot tools`.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the files in tools/ of the workspace with their tools
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Check the files and explain what keeps one from being loaded
    Check {
        /// Name of a file or folder in tools/; without one, all are checked
        name: Option<String>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Run a tool in its sandbox, as the assistant would
    Run {
        /// Name of the tool
        name: String,
        /// Arguments, a JSON object
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if tools in files are disabled, or there is no such file or tool.
pub(crate) fn tools(
    program: &RuntimeBuilder,
    command: ToolsCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let home = ToolFilesHome::of(&runtime)?;
    if !home.is_enabled() {
        let hint = "Set tools.toolFiles.enable to true.";
        return Err(CommandFailure::new("tools in files are disabled", hint));
    }
    match command {
        ToolsCommand::List { json } => {
            let files = block_on(async { Ok(home.list().await) })?;
            let text = match json {
                true => text_of(&files)?,
                false if files.is_empty() => {
                    "There is no tool in tools/ of the workspace.\n".to_owned()
                }
                false => files.iter().map(format_file).collect(),
            };
            print(&text, json)?;
            Ok(ExitCode::SUCCESS)
        }
        ToolsCommand::Check { name, json } => check(&home, name.as_deref(), json),
        ToolsCommand::Run {
            name,
            arguments,
            json,
        } => {
            let call = block_on(async { Ok(home.run(&name, &arguments).await?) })?;
            let text = match json {
                true => text_of(&call)?,
                false => format!("{}\n", sanitize(&call.output)),
            };
            print(&text, json)?;
            Ok(match call.succeeded {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            })
        }
    }
}

fn check(
    home: &ToolFilesHome,
    name: Option<&str>,
    is_json: bool,
) -> Result<ExitCode, CommandFailure> {
    let mut files = block_on(async { Ok(home.list().await) })?;
    if let Some(name) = name {
        files.retain(|file| file.file == name);
        if files.is_empty() {
            let hint = "`nanobot tools list` shows the files.";
            return Err(CommandFailure::new(
                format!("there is no tool file {}", sanitize(name)),
                hint,
            ));
        }
    }
    let text = match is_json {
        true => text_of(&files)?,
        false => files.iter().map(format_check).collect(),
    };
    print(&text, is_json)?;
    let is_good = |file: &ToolFileStatus| match file.state {
        ToolFileState::Loaded => true,
        // Only who names a file means it to be a tool.
        ToolFileState::Ignored => name.is_none(),
        ToolFileState::Refused | ToolFileState::Unavailable => false,
    };
    let is_good = files.iter().all(is_good);
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn print(text: &str, is_json: bool) -> std::io::Result<()> {
    match is_json {
        true => output::write_verbatim(text),
        false => output::write(text),
    }
}

fn text_of(value: &impl serde::Serialize) -> Result<String, CommandFailure> {
    Ok(as_json(value).map_err(std::io::Error::from)? + "\n")
}

fn state_name(state: ToolFileState) -> &'static str {
    match state {
        ToolFileState::Loaded => "loaded",
        ToolFileState::Refused => "refused",
        ToolFileState::Ignored => "ignored",
        ToolFileState::Unavailable => "unavailable",
    }
}

fn format_file(file: &ToolFileStatus) -> String {
    let about = match (&file.tool, &file.problem) {
        (Some(tool), _) => {
            let about = sanitize(file.description.as_deref().unwrap_or_default());
            let about: String = about
                .replace('\n', " ")
                .chars()
                .take(MAX_DESCRIPTION)
                .collect();
            format!("{}  {about}", sanitize(tool))
        }
        (None, problem) => sanitize(problem.as_deref().unwrap_or_default()),
    };
    let state = state_name(file.state);
    format!("{}  {state}  {about}\n", sanitize(&file.file))
}

fn format_check(file: &ToolFileStatus) -> String {
    let name = sanitize(&file.file);
    let problem = file.problem.as_deref().unwrap_or_default();
    let mut text = match (file.state, &file.tool) {
        (ToolFileState::Loaded, Some(tool)) => format!("✓ {name}: {}\n", sanitize(tool)),
        (ToolFileState::Ignored, _) => format!("- {name}: ignored: {}\n", sanitize(problem)),
        (state, _) => format!("✗ {name}: {}: {}\n", state_name(state), sanitize(problem)),
    };
    for finding in &file.findings {
        text.push_str(&format!("  warning: {}\n", sanitize(finding)));
    }
    text
}
