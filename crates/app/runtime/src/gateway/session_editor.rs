//! Forks and rewinds of conversations of a running agent.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AgentError};
use nanobot_control::{SessionEditError, SessionEditor};
use nanobot_session::{Seq, SessionError, SessionStore};
use nanobot_types::SessionKey;

use crate::error::chain;

/// Forks and rewinds conversations while the agent works on others.
#[derive(Debug)]
pub(crate) struct AgentSessionEditor {
    pub(crate) agent: Arc<Agent>,
}

#[async_trait]
impl SessionEditor for AgentSessionEditor {
    /// Also works during a turn: the copy has the steps recorded so far and does not continue the
    /// turn.
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, SessionEditError> {
        fork(&**self.agent.sessions(), session, at, to).await
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), SessionEditError> {
        match self.agent.rewind(&session.into(), Seq(to)).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(SessionEditError::AtWork {
                session: session.to_owned(),
            }),
            Err(AgentError::Session(error)) => Err(edit_error(&error)),
            Err(error) => Err(SessionEditError::Failed { why: chain(&error) }),
        }
    }
}

/// Copies a session up to a position.
pub(crate) async fn fork(
    store: &dyn SessionStore,
    session: &str,
    at: Option<u64>,
    to: Option<&str>,
) -> Result<String, SessionEditError> {
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
        (SessionError::Moved { .. }, Some(to)) => SessionEditError::Taken {
            session: to.to_owned(),
        },
        (error, _) => edit_error(&error),
    })
}

/// Converts an error of the session store.
pub(crate) fn edit_error(error: &SessionError) -> SessionEditError {
    match error {
        SessionError::OutOfReach {
            key,
            position,
            first,
            last,
        } => SessionEditError::OutOfReach {
            session: key.to_string(),
            position: position.0,
            first: first.0,
            last: last.0,
        },
        SessionError::Moved { key, .. } => SessionEditError::AtWork {
            session: key.to_string(),
        },
        error => SessionEditError::Failed { why: chain(error) },
    }
}
