//! Places of a configuration's files, and the stores that open them.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_config::Config;
use nanobot_session::{Durability, JsonlStore, SessionPaths, SessionStore};
use nanobot_state::CommitDurability;

use super::rotating_file::RotatingFile;
use super::settings::SessionsConfig;
use crate::RuntimeError;

/// Socket on which the gateway of a home listens for other commands.
pub(crate) fn control_socket(config: &Config) -> PathBuf {
    config.paths().data_dir.join(nanobot_control::SOCKET)
}

/// The log of a gateway; nothing is opened yet.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if `logs` cannot be used.
pub fn gateway_log(config: &Config) -> Result<RotatingFile, RuntimeError> {
    let path = config.paths().logs.join("gateway.log");
    Ok(RotatingFile::new(path, config.section("logs")?))
}

/// The sessions of a configuration's workspace.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the workspace is unknown or `sessions` cannot be used.
pub fn session_store(config: &Config) -> Result<Arc<dyn SessionStore>, RuntimeError> {
    let paths = config.paths();
    let workspace = config.workspace()?;
    let settings: SessionsConfig = config.section("sessions")?;
    let sessions = SessionPaths::discover(&workspace, &paths.data_dir, &paths.home);
    Ok(Arc::new(
        JsonlStore::new(sessions).with_durability(settings.durability),
    ))
}

/// Failures that the ledger of a gateway survives: the same as its sessions.
pub(crate) fn ledger_durability(config: &Config) -> Result<CommitDurability, RuntimeError> {
    Ok(
        match config.section::<SessionsConfig>("sessions")?.durability {
            Durability::Disk => CommitDurability::PowerCut,
            Durability::Os => CommitDurability::ProcessEnd,
        },
    )
}
