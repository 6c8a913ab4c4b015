//! `nanobot sessions`: lists, shows, exports, forks and rewinds conversations. Reading works on the
//! files, also next to a gateway, which only appends to them. A running gateway does forks and
//! rewinds itself.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use nanobot_config::Config;
use nanobot_runtime::session::{ReadFrom, Seq, SessionInfo, SessionStore, SessionView};
use nanobot_runtime::types::{SessionKey, Timestamp};
use nanobot_runtime::{
    RuntimeBuilder, SessionEditError, is_subagent_session, last_miss, session_editor, session_store,
};

use super::{block_on, transcript};
use crate::failure::{CommandFailure, chain};
use crate::output;

/// Subcommands of `nanobot sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List conversations, newest first
    List {
        /// Include the sessions of subagents
        #[arg(long)]
        all: bool,
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
    /// Copy a conversation, so that both can be continued
    Fork {
        /// Conversation, as listed by `sessions list`
        key: String,
        /// Copy up to this message, by its number in `sessions show` [default: all]
        #[arg(long, value_name = "N")]
        at: Option<u64>,
        /// Name of the copy [default: the first free `KEY:branch:N`]
        #[arg(long, value_name = "KEY")]
        to: Option<String>,
    },
    /// Go back in a conversation; later messages are kept, but no longer sent to the model
    Rewind {
        /// Conversation, as listed by `sessions list`
        key: String,
        /// Last message to keep in the conversation, by its number in `sessions show`
        #[arg(long, value_name = "N")]
        to: u64,
    },
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
        SessionsCommand::List { all } => {
            let mut sessions = block_on(list(&store))?;
            sessions.retain(|info| all || !is_subagent_session(&info.key));
            output::write(&table(&sessions))?;
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
            let (info, view) = block_on(find(&store, &key))?;
            let text = match format {
                ExportFormat::Jsonl => transcript::as_json_lines(&info, &view)?,
                ExportFormat::Md => transcript::as_markdown(&info, &view),
            };
            match file {
                Some(file) => write_new(&file, &text)?,
                None if output::is_terminal() => output::write(&text)?,
                None => output::write_verbatim(&text)?,
            }
        }
        SessionsCommand::Fork { key, at, to } => {
            let copy = block_on(fork(config, &key, at, to))?;
            output::line(&format!(
                "Copied to {0}. Go on with it: nanobot agent -s '{0}'",
                output::sanitize(&copy)
            ))?;
        }
        SessionsCommand::Rewind { key, to } => {
            block_on(rewind(config, &key, to))?;
            output::line(&format!(
                "The conversation stands as it was after message {to}; what followed stays in its file."
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn fork(
    config: &Config,
    name: &str,
    at: Option<u64>,
    to: Option<String>,
) -> Result<String, CommandFailure> {
    let from = find(&session_store(config)?, name).await?.0.key;
    let to = to.map(|to| session_key_of(&to));
    let copied = session_editor(config)
        .await?
        .fork(from.as_str(), at, to.as_ref().map(SessionKey::as_str))
        .await;
    copied.map_err(|error| edit_failed(&error))
}

async fn rewind(config: &Config, name: &str, to: u64) -> Result<(), CommandFailure> {
    let key = find(&session_store(config)?, name).await?.0.key;
    session_editor(config)
        .await?
        .rewind(key.as_str(), to)
        .await
        .map_err(|error| edit_failed(&error))
}

fn edit_failed(error: &SessionEditError) -> CommandFailure {
    let remedy = match error {
        SessionEditError::OutOfReach { first: 1.., .. } => {
            "What lies before is summarised or was left by /new; `nanobot sessions fork KEY --at N` copies from there."
        }
        SessionEditError::OutOfReach { .. } => {
            "`nanobot sessions show KEY` shows the number of each message."
        }
        SessionEditError::AtWork { .. } => {
            "Wait for its answer, or end it with /stop in that conversation; then try again."
        }
        SessionEditError::Taken { .. } => {
            "Name another with --to, or leave --to out for the first free name."
        }
        SessionEditError::Failed { .. } => {
            "Check the permissions and the room on the disk of the workspace."
        }
    };
    CommandFailure::new(error.to_string(), remedy)
}

/// Returns the session key for a name; a name without a colon is a chat of the terminal.
pub(super) fn session_key_of(name: &str) -> SessionKey {
    if name.contains(':') {
        SessionKey::from(name)
    } else {
        SessionKey::from(format!("cli:{name}"))
    }
}

async fn list(store: &Arc<dyn SessionStore>) -> Result<Vec<SessionInfo>, CommandFailure> {
    store.list().await.map_err(|error| {
        CommandFailure::new(
            chain(&error),
            "Check that you may read the workspace; `nanobot status` shows where it is.",
        )
    })
}

/// Finds the session of that name; a name without a colon is a chat of the terminal.
pub(super) async fn find(
    store: &Arc<dyn SessionStore>,
    name: &str,
) -> Result<(SessionInfo, SessionView), CommandFailure> {
    let sessions = list(store).await?;
    let exact = SessionKey::from(name);
    let info = [exact, session_key_of(name)]
        .iter()
        .find_map(|key| sessions.iter().find(|info| info.key == *key))
        .cloned();
    let Some(info) = info else {
        return Err(CommandFailure::new(
            format!("there is no conversation `{name}` in this workspace"),
            "`nanobot sessions list` shows their names.",
        ));
    };
    let view = store
        .read(&info.key, ReadFrom::Seq(Seq(0)))
        .await
        .map_err(|error| {
            CommandFailure::new(chain(&error), "Check the permissions of that file.")
        })?;
    Ok((info, view))
}

fn table(sessions: &[SessionInfo]) -> String {
    if sessions.is_empty() {
        return "No conversations yet. Begin one: nanobot agent\n".to_owned();
    }
    let width = sessions
        .iter()
        .map(|info| info.key.as_str().chars().count())
        .max()
        .unwrap_or_default();
    let time = |at: Option<&Timestamp>| {
        at.map_or_else(
            || " ".repeat(16),
            |at| at.format("%Y-%m-%d %H:%M").to_string(),
        )
    };
    sessions
        .iter()
        .map(|info| {
            let key = output::sanitize(info.key.as_str());
            format!(
                "{key:width$}  {}  {:>6} messages\n",
                time(info.updated_at.as_ref()),
                info.messages
            )
        })
        .collect()
}

/// Writes a file that does not exist yet.
pub(super) fn write_new(file: &Path, text: &str) -> Result<(), CommandFailure> {
    let written = File::create_new(file).and_then(|mut created| {
        created.write_all(text.as_bytes())?;
        created.sync_all()
    });
    written.map_err(|error| {
        CommandFailure::new(
            format!("cannot write {}: {error}", file.display()),
            "Name a file that does not exist yet, in a directory that you may write to.",
        )
    })
}
