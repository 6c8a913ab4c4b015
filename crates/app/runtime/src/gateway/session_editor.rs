//! Changes to conversations of a running agent.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AgentError, SessionReservation, UndoReport, redo_last_exchange};
use nanobot_control::{SessionEditError, SessionEditor, UndoneExchange};
use nanobot_session::{Seq, SessionError, SessionStore};
use nanobot_types::SessionKey;

use crate::error::{chain, is_disk_failure};

/// Changes conversations while the agent works on others.
#[derive(Debug)]
pub(super) struct AgentSessionEditor(pub(super) Arc<Agent>);

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
        fork(&**self.0.sessions(), session, at, to).await
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), SessionEditError> {
        match self.0.rewind(&session.into(), Seq(to)).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(SessionEditError::AtWork {
                session: session.to_owned(),
            }),
            Err(error) => Err(agent_error(&error)),
        }
    }

    async fn rename(&self, session: &str, name: Option<&str>) -> Result<(), SessionEditError> {
        rename(&**self.0.sessions(), session, name).await
    }

    async fn delete(&self, session: &str) -> Result<(), SessionEditError> {
        let key = SessionKey::from(session);
        let subagents = self.0.subagents();
        if subagents.is_some_and(|subagents| !subagents.of_session(&key).is_empty()) {
            let session = session.to_owned();
            return Err(SessionEditError::Subagents { session });
        }
        let reserved = self.reserve(&key)?;
        match self.0.delete_session(&reserved, &key).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(unknown(session)),
            Err(error) => Err(agent_error(&error)),
        }
    }

    async fn restore(&self, session: &str) -> Result<(), SessionEditError> {
        let _reserved = self.reserve(&session.into())?;
        restore(&**self.0.sessions(), session).await
    }

    async fn undo(&self, session: &str) -> Result<UndoneExchange, SessionEditError> {
        let key = SessionKey::from(session);
        let reserved = self.reserve(&key)?;
        let undone = self.0.undo(&reserved, &key).await;
        undone_exchange(session, undone.map_err(|error| agent_error(&error))?)
    }

    async fn redo(&self, session: &str) -> Result<(), SessionEditError> {
        let _reserved = self.reserve(&session.into())?;
        redo(&**self.0.sessions(), session).await
    }
}

impl AgentSessionEditor {
    fn reserve(&self, session: &SessionKey) -> Result<SessionReservation, SessionEditError> {
        self.0
            .reserve(session)
            .ok_or_else(|| SessionEditError::AtWork {
                session: session.to_string(),
            })
    }
}

/// Names a session.
pub(crate) async fn rename(
    store: &dyn SessionStore,
    session: &str,
    name: Option<&str>,
) -> Result<(), SessionEditError> {
    let checked = nanobot_session::check_title(name.unwrap_or_default());
    let name = checked.map_err(|error| SessionEditError::Name {
        why: error.to_string(),
    })?;
    match nanobot_session::rename(store, &session.into(), name.as_deref()).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(unknown(session)),
        Err(error) => Err(edit_error(&error)),
    }
}

/// Restores a deleted session.
pub(crate) async fn restore(
    store: &dyn SessionStore,
    session: &str,
) -> Result<(), SessionEditError> {
    let is_restored = match store.catalog() {
        Some(catalog) => catalog.restore(&session.into()).await,
        None => Ok(false),
    };
    match is_restored {
        Ok(true) => Ok(()),
        Ok(false) => Err(SessionEditError::NotDeleted {
            session: session.to_owned(),
        }),
        Err(error) => Err(edit_error(&error)),
    }
}

/// Restores what was undone last in a session.
pub(crate) async fn redo(store: &dyn SessionStore, session: &str) -> Result<(), SessionEditError> {
    match redo_last_exchange(store, &session.into(), None).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(SessionEditError::NothingToRestore {
            session: session.to_owned(),
        }),
        Err(error) => Err(edit_error(&error)),
    }
}

/// Converts the report of an undo.
pub(crate) fn undone_exchange(
    session: &str,
    undone: Option<UndoReport>,
) -> Result<UndoneExchange, SessionEditError> {
    match undone {
        Some(UndoReport { asked, effects }) => Ok(UndoneExchange { asked, effects }),
        None => Err(SessionEditError::NothingToUndo {
            session: session.to_owned(),
        }),
    }
}

/// Returns the error for a session that does not exist.
pub(crate) fn unknown(session: &str) -> SessionEditError {
    SessionEditError::Unknown {
        session: session.to_owned(),
    }
}

/// Returns the error for an operation that failed.
pub(crate) fn failed(error: &(dyn std::error::Error + 'static)) -> SessionEditError {
    SessionEditError::Failed {
        why: chain(error),
        needs_room: is_disk_failure(error),
    }
}

fn agent_error(error: &AgentError) -> SessionEditError {
    match error {
        AgentError::Session(error) => edit_error(error),
        error => failed(error),
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
        SessionError::Taken { key } => SessionEditError::Taken {
            session: key.to_string(),
        },
        error => failed(error),
    }
}
