//! Changes to conversations, through the running gateway or on the files.
//!
//! Decision: the gateway is asked because one of its turns may be at work in the conversation, and
//! would continue from what was undone. Reading needs no gateway: files are only ever appended to,
//! and an incomplete line is skipped. Without a gateway, the home's lock is held while a file is
//! changed, so that none starts meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::undo_last_exchange;
use nanobot_config::Config;
use nanobot_control::{SessionEditError, SessionEditor, UndoneExchange};
use nanobot_redact::Secrets;
use nanobot_session::{Seq, SessionStore};
use nanobot_state::HomeLock;

use super::remote;
use crate::gateway::session_editor::{
    edit_error, failed, fork, redo, rename, restore, undone_exchange, unknown,
};
use crate::{RuntimeError, secrets, session_store};

/// Returns the implementation for a configuration: its running gateway, else the files.
///
/// # Errors
/// Returns the errors of [`session_store`], and [`RuntimeError::Silent`] if the gateway does not
/// answer.
pub async fn session_editor(config: &Config) -> Result<Arc<dyn SessionEditor>, RuntimeError> {
    if let Some(gateway) = remote::connect_sharing_workspace(config).await? {
        return Ok(Arc::new(gateway));
    }
    let home = &config.paths().data_dir;
    // A gateway that has the home but not this workspace keeps its lock.
    let is_free = HomeLock::holder(home)?.is_none();
    Ok(Arc::new(StoreSessionEditor {
        store: session_store(config)?,
        home: is_free.then(|| home.clone()),
        secrets: secrets(config),
    }))
}

/// Changes conversations on the files, while no gateway runs.
#[derive(Debug)]
struct StoreSessionEditor {
    store: Arc<dyn SessionStore>,
    /// The home to lock; `None` if another process works in another workspace of it.
    home: Option<PathBuf>,
    secrets: Secrets,
}

impl StoreSessionEditor {
    fn lock(&self) -> Result<Option<HomeLock>, SessionEditError> {
        let lock = self.home.as_deref().map(HomeLock::acquire).transpose();
        lock.map_err(|error| failed(&error))
    }
}

#[async_trait]
impl SessionEditor for StoreSessionEditor {
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, SessionEditError> {
        fork(&*self.store, session, at, to).await
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), SessionEditError> {
        let undone = nanobot_session::rewind(&*self.store, &session.into(), Seq(to)).await;
        undone.map(drop).map_err(|error| edit_error(&error))
    }

    async fn rename(&self, session: &str, name: Option<&str>) -> Result<(), SessionEditError> {
        let _lock = self.lock()?;
        rename(&*self.store, session, name).await
    }

    async fn delete(&self, session: &str) -> Result<(), SessionEditError> {
        let _lock = self.lock()?;
        let is_deleted = match self.store.catalog() {
            Some(catalog) => catalog.delete(&session.into()).await,
            None => Ok(false),
        };
        match is_deleted {
            Ok(true) => Ok(()),
            Ok(false) => Err(unknown(session)),
            Err(error) => Err(edit_error(&error)),
        }
    }

    async fn restore(&self, session: &str) -> Result<(), SessionEditError> {
        let _lock = self.lock()?;
        restore(&*self.store, session).await
    }

    async fn undo(&self, session: &str) -> Result<UndoneExchange, SessionEditError> {
        let _lock = self.lock()?;
        let undone = undo_last_exchange(&*self.store, &session.into(), None, &self.secrets).await;
        undone_exchange(session, undone.map_err(|error| edit_error(&error))?)
    }

    async fn redo(&self, session: &str) -> Result<(), SessionEditError> {
        let _lock = self.lock()?;
        redo(&*self.store, session).await
    }
}
