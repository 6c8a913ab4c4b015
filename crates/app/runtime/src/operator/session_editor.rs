//! Forks and rewinds of conversations, through the running gateway or on the files.
//!
//! Decision: the gateway is asked because one of its turns may be at work in the conversation, and
//! would continue from what was undone. Reading needs no gateway: files are only ever appended to,
//! and an incomplete line is skipped.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_config::Config;
use nanobot_control::{SessionEditError, SessionEditor};
use nanobot_session::{Seq, SessionStore};

use super::remote;
use crate::gateway::session_editor::{edit_error, fork};
use crate::{RuntimeError, session_store};

/// Returns the implementation for a configuration: its running gateway, else the files.
///
/// # Errors
/// Returns the errors of [`session_store`], and [`RuntimeError::Silent`] if the gateway does not
/// answer.
pub async fn session_editor(config: &Config) -> Result<Arc<dyn SessionEditor>, RuntimeError> {
    match remote::connect_sharing_workspace(config).await? {
        Some(gateway) => Ok(Arc::new(gateway)),
        None => Ok(Arc::new(StoreSessionEditor {
            store: session_store(config)?,
        })),
    }
}

/// Forks and rewinds on the files, while no gateway runs.
#[derive(Debug)]
struct StoreSessionEditor {
    store: Arc<dyn SessionStore>,
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
}
