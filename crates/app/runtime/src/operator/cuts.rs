//! Copies of conversations and ways back in them: by the gateway that has them, or on the files.
//!
//! Decision: a gateway is asked, because a turn of it may be at work in the conversation, and would
//! go on from what was undone. Reading needs nobody: files are only ever appended to, and what is
//! half written is passed over.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_config::Config;
use nanobot_control::{CutError, Cuts};
use nanobot_session::{Seq, SessionStore};

use super::remote;
use crate::gateway::cuts::{cut_error, fork};
use crate::{RuntimeError, session_store};

/// Who cuts the conversations of a configuration: its running gateway, else the files.
///
/// # Errors
/// As [`session_store`], and [`RuntimeError::Silent`].
pub async fn cuts(config: &Config) -> Result<Arc<dyn Cuts>, RuntimeError> {
    match remote::connect_sharing_workspace(config).await? {
        Some(gateway) => Ok(Arc::new(gateway)),
        None => Ok(Arc::new(StoreCuts {
            store: session_store(config)?,
        })),
    }
}

/// Cuts on the files, where nothing is at work.
#[derive(Debug)]
struct StoreCuts {
    store: Arc<dyn SessionStore>,
}

#[async_trait]
impl Cuts for StoreCuts {
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, CutError> {
        fork(&*self.store, session, at, to).await
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), CutError> {
        let undone = nanobot_session::rewind(&*self.store, &session.into(), Seq(to)).await;
        undone.map(drop).map_err(|error| cut_error(&error))
    }
}
