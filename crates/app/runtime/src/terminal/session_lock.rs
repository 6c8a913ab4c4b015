//! Lock of a session by a prompt without a gateway.
//!
//! Decision: without a gateway, two prompts on one session would interleave their turns, so the
//! second one is refused. A question or a pipe is not: it is one turn or a few, and each append is
//! checked against the head of the session. The lock is the operating system's, so it ends with its
//! process.

use std::path::{Path, PathBuf};

use nanobot_config::Config;
use nanobot_state::{LockHolder, ProcessLock, StateError};
use sha2::{Digest as _, Sha256};

use super::split_session;
use crate::RuntimeError;

/// Folder of the locks in a home.
const FOLDER: &str = "prompt-locks";

/// Acquires the lock of a session in this workspace.
///
/// # Errors
/// Returns [`RuntimeError::SessionInUse`] if the prompt of another process has it, and
/// [`RuntimeError::State`] if the lock file cannot be used.
pub(super) async fn acquire(config: &Config, session: &str) -> Result<ProcessLock, RuntimeError> {
    let (session, path) = lock_of(config, session)?;
    let acquiring = tokio::task::spawn_blocking(move || ProcessLock::acquire(path));
    match acquiring.await {
        Ok(Ok(lock)) => Ok(lock),
        Ok(Err(StateError::Owned { pid, .. })) => Err(RuntimeError::SessionInUse { session, pid }),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(nanobot_agent_core::AgentError::Interrupted.into()),
    }
}

/// Checks that no prompt without a gateway has a session, before a prompt joins it at the gateway.
/// A prompt that is open when the gateway starts keeps its session.
///
/// # Errors
/// Returns the same errors as [`acquire`].
pub(super) async fn refuse_if_held(config: &Config, session: &str) -> Result<(), RuntimeError> {
    let (session, path) = lock_of(config, session)?;
    let looking = tokio::task::spawn_blocking(move || ProcessLock::holder(&path));
    match looking.await {
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(LockHolder { pid }))) => Err(RuntimeError::SessionInUse { session, pid }),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(nanobot_agent_core::AgentError::Interrupted.into()),
    }
}

/// Returns the name of a session and the path of its lock. The file is named by a digest, whatever
/// the session is called.
fn lock_of(config: &Config, session: &str) -> Result<(String, PathBuf), RuntimeError> {
    let (channel, chat) = split_session(session);
    let session = format!("{channel}:{chat}");
    let workspace = config.workspace()?;
    let path = config
        .paths()
        .data_dir
        .join(FOLDER)
        .join(file_name(&workspace, &session));
    Ok((session, path))
}

fn file_name(workspace: &Path, session: &str) -> String {
    let digest = Sha256::new()
        .chain_update(workspace.as_os_str().as_encoded_bytes())
        .chain_update([0])
        .chain_update(session)
        .finalize();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.lock")
}
