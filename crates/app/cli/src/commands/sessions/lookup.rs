//! Conversations by the names that people give them.

use std::sync::Arc;

use nanobot_runtime::session::{
    ReadFrom, Seq, SessionError, SessionInfo, SessionStore, SessionView,
};
use nanobot_runtime::types::SessionKey;

use crate::failure::{CommandFailure, chain};

/// Returns the session key for a name; a name without a colon is a chat of the terminal.
pub(crate) fn session_key_of(name: &str) -> SessionKey {
    if name.contains(':') {
        SessionKey::from(name)
    } else {
        SessionKey::from(format!("cli:{name}"))
    }
}

/// Lists the sessions of a store.
///
/// # Errors
/// Returns an error if they cannot be listed.
pub(super) async fn list(
    store: &Arc<dyn SessionStore>,
) -> Result<Vec<SessionInfo>, CommandFailure> {
    store.list().await.map_err(|error| list_failed(&error))
}

/// Returns the failure of a list, with what to try.
pub(super) fn list_failed(error: &SessionError) -> CommandFailure {
    CommandFailure::new(
        chain(error),
        "Check that you may read the workspace; `nanobot status` shows where it is.",
    )
}

/// Finds the session of that name; a name without a colon is a chat of the terminal.
pub(super) async fn find_info(
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
pub(crate) async fn find(
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
