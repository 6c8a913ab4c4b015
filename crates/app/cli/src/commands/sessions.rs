//! `nanobot sessions`: lists, shows, exports and changes conversations. Reading works on the files,
//! also next to a gateway, which only appends to them. A running gateway makes the changes itself.

mod change;
mod lookup;
mod table;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use nanobot_runtime::session::SessionStore;
use nanobot_runtime::{
    ConversationFilter, RuntimeBuilder, conversations, last_miss, session_store,
};

use self::change::{SessionChange, change};
use self::table::table;
use super::{block_on, prepare_write, transcript};
use crate::failure::CommandFailure;
use crate::output;

pub(crate) use self::change::edit_failed;
pub(super) use self::lookup::{find, session_key_of};

/// Subcommands of `nanobot sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List conversations, newest first
    List {
        /// Include the sessions of subagents
        #[arg(long)]
        all: bool,
        /// Only those with these words in their key, title or text
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
    },
    /// Print a conversation
    Show {
        /// Conversation, as listed by `sessions list`
        key: String,
    },
    /// Write a conversation to standard output or a new file
    Export {
        /// Conversation, as listed by `sessions list`
        key: String,
        /// Format of the output
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
        /// File to create; it must not exist yet
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Changes
    #[command(flatten)]
    Change(SessionChange),
}

/// Forms of an exported conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object a line, as sessions are stored
    Jsonl,
    /// Markdown
    Md,
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if there is no such conversation, or it cannot be read or written.
pub(crate) fn sessions(
    program: &RuntimeBuilder,
    command: SessionsCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    let store = session_store(config)?;
    match command {
        SessionsCommand::List { all, search } => {
            let filter = ConversationFilter {
                search,
                with_subagents: all,
                limit: None,
            };
            let listed = block_on(async { Ok(conversations(config, &filter).await?) })?;
            output::write(&table(&listed, filter.search.as_deref()))?;
        }
        SessionsCommand::Show { key } => {
            let (view, miss) = block_on(async {
                let (info, view) = find(&store, &key).await?;
                Ok((view, last_miss(config, &info.key).await))
            })?;
            output::write(&transcript::as_text(&view))?;
            if let Some(miss) = miss {
                output::line(&format!(
                    "\nLast break of the prompt cache: {}",
                    output::sanitize(&miss.to_string())
                ))?;
            }
        }
        SessionsCommand::Export {
            key,
            format,
            output: file,
        } => {
            if let Some(file) = file {
                block_on(export_to(&store, &key, format, &file))?;
                return Ok(ExitCode::SUCCESS);
            }
            let text = block_on(exported(&store, &key, format))?;
            if output::is_terminal() {
                output::write(&text)?;
            } else {
                output::write_verbatim(&text)?;
            }
        }
        SessionsCommand::Change(command) => {
            if !matches!(command, SessionChange::Restore { key: None }) {
                block_on(prepare_write(&runtime))?;
            }
            change(config, &store, command)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a conversation in a format for export.
async fn exported(
    store: &Arc<dyn SessionStore>,
    name: &str,
    format: ExportFormat,
) -> Result<String, CommandFailure> {
    let (info, view) = find(store, name).await?;
    match format {
        ExportFormat::Jsonl => transcript::as_json_lines(&info, &view),
        ExportFormat::Md => Ok(transcript::as_markdown(&info, &view)),
    }
}

/// Writes a conversation to a file that does not exist yet.
///
/// # Errors
/// Returns an error if there is no such conversation, or the file cannot be written.
pub(crate) async fn export_to(
    store: &Arc<dyn SessionStore>,
    name: &str,
    format: ExportFormat,
    file: &Path,
) -> Result<(), CommandFailure> {
    write_new(file, &exported(store, name, format).await?)
}

/// Writes a file that does not exist yet.
pub(super) fn write_new(file: &Path, text: &str) -> Result<(), CommandFailure> {
    let written = File::create_new(file).and_then(|mut created| {
        created.write_all(text.as_bytes())?;
        created.sync_all()
    });
    written.map_err(|error| {
        let remedy = "Name a file that does not exist yet, in a directory that you may write to.";
        CommandFailure::unwritable(file, &error, remedy)
    })
}
