//! Copies of conversations and ways back in them: by the gateway that has them, or on the files.
//!
//! Decision: a gateway is asked, because a turn of it may be at work in the conversation, and would
//! go on from what was undone. Reading needs nobody: files are only ever appended to, and what is
//! half written is passed over.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AgentError};
use nanobot_config::Config;
use nanobot_control::{CutError, Cuts};
use nanobot_session::{Seq, SessionError, SessionStore};
use nanobot_types::SessionKey;

use crate::error::chain;
use crate::{RuntimeError, session_store, terminal};

/// Who cuts the conversations of a configuration: its running gateway, else the files.
///
/// # Errors
/// As [`session_store`], and [`RuntimeError::Silent`].
pub async fn cuts(config: &Config) -> Result<Arc<dyn Cuts>, RuntimeError> {
    match terminal::gateway_of(config).await? {
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

/// Cuts beside the turns of an agent.
#[derive(Debug)]
pub(crate) struct AgentCuts {
    pub(crate) agent: Arc<Agent>,
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

#[async_trait]
impl Cuts for AgentCuts {
    /// Also while a turn is at work: the copy has what is recorded of it, and does not go on with it.
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, CutError> {
        fork(&**self.agent.sessions(), session, at, to).await
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), CutError> {
        match self.agent.rewind(&session.into(), Seq(to)).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(CutError::AtWork {
                session: session.to_owned(),
            }),
            Err(AgentError::Session(error)) => Err(cut_error(&error)),
            Err(error) => Err(CutError::Failed { why: chain(&error) }),
        }
    }
}

async fn fork(
    store: &dyn SessionStore,
    session: &str,
    at: Option<u64>,
    to: Option<&str>,
) -> Result<String, CutError> {
    let (from, at) = (SessionKey::from(session), at.map(Seq));
    let copied = match to {
        Some(to) => nanobot_session::fork(store, &from, at, &to.into())
            .await
            .map(|_| to.to_owned()),
        None => nanobot_session::branch(store, &from, at)
            .await
            .map(|copy| copy.to_string()),
    };
    copied.map_err(|error| match (error, to) {
        (SessionError::Moved { .. }, Some(to)) => CutError::Taken {
            session: to.to_owned(),
        },
        (error, _) => cut_error(&error),
    })
}

fn cut_error(error: &SessionError) -> CutError {
    match error {
        SessionError::OutOfReach {
            key,
            position,
            first,
            last,
        } => CutError::OutOfReach {
            session: key.to_string(),
            position: position.0,
            first: first.0,
            last: last.0,
        },
        SessionError::Moved { key, .. } => CutError::AtWork {
            session: key.to_string(),
        },
        error => CutError::Failed { why: chain(error) },
    }
}
