//! `nanobot sessions`: lists, shows, exports and changes conversations. Reading works on the files,
//! also next to a gateway, which only appends to them. A running gateway makes the changes itself.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use nanobot_config::Config;
use nanobot_runtime::session::{
    DeletedSession, ReadFrom, Seq, SessionError, SessionInfo, SessionStore, SessionView,
};
use nanobot_runtime::types::{SessionKey, Timestamp};
use nanobot_runtime::{
    ConversationFilter, ConversationSummary, MAKE_ROOM, RuntimeBuilder, SessionEditError,
    UndoneExchange, conversations, last_miss, session_editor, session_store,
};

use super::{block_on, prepare_write, transcript};
use crate::ask;
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

/// Subcommands that change conversations.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionChange {
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
    /// Undo the last message and what followed; the effects of tools remain
    Undo {
        /// Conversation, as listed by `sessions list`
        key: String,
    },
    /// Restore what was undone last, as long as no message followed
    Redo {
        /// Conversation, as listed by `sessions list`
        key: String,
    },
    /// Give a conversation a title; an empty one removes it
    Rename {
        /// Conversation, as listed by `sessions list`
        key: String,
        /// The title
        name: String,
    },
    /// Delete a conversation; it can be restored for 30 days
    Delete {
        /// Conversation, as listed by `sessions list`
        key: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Restore a conversation that was deleted, or list those that can be restored
    Restore {
        /// Conversation; without it, deleted conversations are listed
        key: Option<String>,
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

/// Runs a subcommand that changes conversations.
fn change(
    config: &Config,
    store: &Arc<dyn SessionStore>,
    command: SessionChange,
) -> Result<(), CommandFailure> {
    match command {
        SessionChange::Fork { key, at, to } => {
            let copy = block_on(fork(config, &key, at, to))?;
            output::line(&format!(
                "Copied to {0}. Go on with it: nanobot agent -s '{0}'",
                output::sanitize(&copy)
            ))?;
        }
        SessionChange::Rewind { key, to } => {
            block_on(rewind(config, &key, to))?;
            output::line(&format!(
                "The conversation stands as it was after message {to}; what followed stays in its file."
            ))?;
        }
        SessionChange::Undo { key } => {
            let undone = block_on(undo(config, &key))?;
            output::write(&output::sanitize(&undone_text(&undone, &key)))?;
        }
        SessionChange::Redo { key } => {
            block_on(async {
                let key = find_info(store, &key).await?.key;
                let redone = session_editor(config).await?.redo(key.as_str()).await;
                redone.map_err(|error| edit_failed(&error))
            })?;
            output::line("Restored what was undone.")?;
        }
        SessionChange::Rename { key, name } => {
            block_on(async {
                let key = find_info(store, &key).await?.key;
                let editor = session_editor(config).await?;
                let renamed = editor.rename(key.as_str(), Some(&name)).await;
                renamed.map_err(|error| edit_failed(&error))
            })?;
            output::line("Renamed.")?;
        }
        SessionChange::Delete { key, yes } => delete(config, store, &key, yes)?,
        SessionChange::Restore { key: None } => {
            let deleted = block_on(deleted(store))?;
            output::write(&deleted_table(&deleted))?;
        }
        SessionChange::Restore { key: Some(key) } => {
            let key = block_on(restore(config, store, &key))?;
            output::line(&format!("Restored {}.", output::sanitize(key.as_str())))?;
        }
    }
    Ok(())
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

async fn undo(config: &Config, name: &str) -> Result<UndoneExchange, CommandFailure> {
    let key = find_info(&session_store(config)?, name).await?.key;
    let undone = session_editor(config).await?.undo(key.as_str()).await;
    undone.map_err(|error| edit_failed(&error))
}

fn undone_text(undone: &UndoneExchange, key: &str) -> String {
    let mut text = format!("Undone: “{}” and what followed.\n", undone.asked);
    if !undone.effects.is_empty() {
        let effects = undone.effects.join(", ");
        text.push_str(&format!("Not undone, what tools did: {effects}.\n"));
    }
    text + &format!("`nanobot sessions redo {key}` restores it.\n")
}

fn delete(
    config: &Config,
    store: &Arc<dyn SessionStore>,
    name: &str,
    yes: bool,
) -> Result<(), CommandFailure> {
    let info = block_on(find_info(store, name))?;
    let key = output::sanitize(info.key.as_str());
    if !yes {
        let question = format!("Delete {key} with {} messages? [y/N] ", info.messages);
        if !output::is_interactive() {
            return Err(CommandFailure::new(
                format!("no one can be asked here, so {key} was not deleted"),
                "Add --yes to delete it without a question.",
            ));
        }
        let answer = block_on(async { Ok(ask::line(&question).await?) })?;
        if !answer.is_some_and(|answer| ["y", "yes"].contains(&answer.to_lowercase().as_str())) {
            output::line("Nothing was deleted.")?;
            return Ok(());
        }
    }
    block_on(async {
        let deleted = session_editor(config)
            .await?
            .delete(info.key.as_str())
            .await;
        deleted.map_err(|error| edit_failed(&error))
    })?;
    output::line(&format!(
        "Deleted {key}. `nanobot sessions restore '{key}'` restores it."
    ))?;
    Ok(())
}

async fn deleted(store: &Arc<dyn SessionStore>) -> Result<Vec<DeletedSession>, CommandFailure> {
    match store.catalog() {
        Some(catalog) => catalog.deleted().await.map_err(|error| list_failed(&error)),
        None => Ok(Vec::new()),
    }
}

/// Restores the deleted session of that name and returns its key.
async fn restore(
    config: &Config,
    store: &Arc<dyn SessionStore>,
    name: &str,
) -> Result<SessionKey, CommandFailure> {
    let deleted = deleted(store).await?;
    let names = [SessionKey::from(name), session_key_of(name)];
    let is_known = |key: &SessionKey| deleted.iter().any(|session| session.key == *key);
    let key = names.into_iter().find(is_known).ok_or_else(|| {
        CommandFailure::new(
            format!(
                "there is no deleted conversation `{}`",
                output::sanitize(name)
            ),
            "`nanobot sessions restore` lists those that can be restored.",
        )
    })?;
    let restored = session_editor(config).await?.restore(key.as_str()).await;
    restored.map(|()| key).map_err(|error| match error {
        SessionEditError::Taken { .. } => CommandFailure::new(
            error.to_string(),
            "Delete or fork that one first; then try again.",
        ),
        error => edit_failed(&error),
    })
}

async fn fork(
    config: &Config,
    name: &str,
    at: Option<u64>,
    to: Option<String>,
) -> Result<String, CommandFailure> {
    let from = find_info(&session_store(config)?, name).await?.key;
    let to = to.map(|to| session_key_of(&to));
    let copied = session_editor(config)
        .await?
        .fork(from.as_str(), at, to.as_ref().map(SessionKey::as_str))
        .await;
    copied.map_err(|error| edit_failed(&error))
}

async fn rewind(config: &Config, name: &str, to: u64) -> Result<(), CommandFailure> {
    let key = find_info(&session_store(config)?, name).await?.key;
    session_editor(config)
        .await?
        .rewind(key.as_str(), to)
        .await
        .map_err(|error| edit_failed(&error))
}

/// Returns the failure of a change, with what to try.
pub(crate) fn edit_failed(error: &SessionEditError) -> CommandFailure {
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
        SessionEditError::Subagents { .. } => {
            "Wait for them, or end them with /stop in that conversation; then try again."
        }
        SessionEditError::Unknown { .. } => "`nanobot sessions list` shows their names.",
        SessionEditError::NothingToUndo { .. } => {
            "What lies before is summarised or was left by /new; `nanobot sessions fork KEY --at N` copies from there."
        }
        SessionEditError::NothingToRestore { .. } => {
            "Only what was undone last can be restored, and only until the next message."
        }
        SessionEditError::NotDeleted { .. } => {
            "`nanobot sessions restore` lists those that can be restored."
        }
        SessionEditError::Name { .. } => "Try a short name in one line.",
        SessionEditError::Failed {
            needs_room: true, ..
        } => MAKE_ROOM,
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
    store.list().await.map_err(|error| list_failed(&error))
}

fn list_failed(error: &SessionError) -> CommandFailure {
    CommandFailure::new(
        chain(error),
        "Check that you may read the workspace; `nanobot status` shows where it is.",
    )
}

/// Finds the session of that name; a name without a colon is a chat of the terminal.
async fn find_info(
    store: &Arc<dyn SessionStore>,
    name: &str,
) -> Result<SessionInfo, CommandFailure> {
    let sessions = list(store).await?;
    let exact = SessionKey::from(name);
    let info = [exact, session_key_of(name)]
        .iter()
        .find_map(|key| sessions.iter().find(|info| info.key == *key))
        .cloned();
    info.ok_or_else(|| {
        CommandFailure::new(
            format!("there is no conversation `{name}` in this workspace"),
            "`nanobot sessions list` shows their names.",
        )
    })
}

/// Finds the session of that name and reads it.
pub(super) async fn find(
    store: &Arc<dyn SessionStore>,
    name: &str,
) -> Result<(SessionInfo, SessionView), CommandFailure> {
    let info = find_info(store, name).await?;
    let view = store
        .read(&info.key, ReadFrom::Seq(Seq(0)))
        .await
        .map_err(|error| {
            CommandFailure::new(chain(&error), "Check the permissions of that file.")
        })?;
    Ok((info, view))
}

fn table(sessions: &[ConversationSummary], search: Option<&str>) -> String {
    if sessions.is_empty() {
        return match search {
            Some(search) => format!("No conversation has “{}”.\n", output::sanitize(search)),
            None => "No conversations yet. Begin one: nanobot agent\n".to_owned(),
        };
    }
    let keys: Vec<String> = sessions
        .iter()
        .map(|session| output::sanitize(session.key.as_str()))
        .collect();
    let width = width(&keys);
    let lines = sessions.iter().zip(&keys).map(|(session, key)| {
        let line = format!(
            "{key:width$}  {}  {:>6} messages  {}",
            time(session.updated_at.as_ref()),
            session.messages,
            output::sanitize(&session.title)
        );
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

fn deleted_table(sessions: &[DeletedSession]) -> String {
    if sessions.is_empty() {
        return "No deleted conversations.\n".to_owned();
    }
    let keys: Vec<String> = sessions
        .iter()
        .map(|session| output::sanitize(session.key.as_str()))
        .collect();
    let width = width(&keys);
    let lines = sessions.iter().zip(&keys);
    lines
        .map(|(session, key)| format!("{key:width$}  deleted {}\n", time(Some(&session.at))))
        .collect()
}

fn width(keys: &[String]) -> usize {
    let widths = keys.iter().map(|key| key.chars().count());
    widths.max().unwrap_or_default()
}

fn time(at: Option<&Timestamp>) -> String {
    at.map_or_else(
        || " ".repeat(16),
        |at| at.format("%Y-%m-%d %H:%M").to_string(),
    )
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
