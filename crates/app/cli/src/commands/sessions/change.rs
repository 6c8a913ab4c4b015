//! Subcommands that change conversations. A running gateway makes the changes itself.

use std::sync::Arc;

use clap::Subcommand;
use nanobot_config::Config;
use nanobot_escape::shell_word;
use nanobot_runtime::session::{DeletedSession, SessionStore};
use nanobot_runtime::types::SessionKey;
use nanobot_runtime::{MAKE_ROOM, SessionEditError, UndoneExchange, session_editor, session_store};

use super::lookup::{find_info, list_failed, session_key_of};
use super::table::deleted_table;
use crate::ask;
use crate::commands::block_on;
use crate::failure::CommandFailure;
use crate::output;

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

/// Runs a subcommand that changes conversations.
///
/// # Errors
/// Returns an error if there is no such conversation, or it cannot be changed.
pub(super) fn change(
    config: &Config,
    store: &Arc<dyn SessionStore>,
    command: SessionChange,
) -> Result<(), CommandFailure> {
    match command {
        SessionChange::Fork { key, at, to } => {
            let copy = block_on(fork(config, &key, at, to))?;
            output::line(&format!(
                "Copied to {}. Go on with it: nanobot agent -s {}",
                output::sanitize(&copy),
                shell_word(&copy)
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
    text + &format!("`nanobot sessions redo {}` restores it.\n", shell_word(key))
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
        "Deleted {key}. `nanobot sessions restore {}` restores it.",
        shell_word(info.key.as_str())
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
        SessionEditError::OutOfReach { first: 1.., .. }
        | SessionEditError::NothingToUndo { .. } => {
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
