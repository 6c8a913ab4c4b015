//! Rewinds, retries and deletes sessions, for their lanes and for callers outside of them.

use nanobot_session::{Entry, InboundStatus, LastExchange, ReadFrom, Record, Seq, SessionView};
use nanobot_types::{MediaRef, MessageId, SessionKey};
use tokio::sync::OwnedMutexGuard;

use super::Agent;
use crate::consolidation::Size;
use crate::{AgentError, UndoReport, redo_last_exchange, undo_last_exchange};

/// A session in which no turn starts while this value exists.
#[derive(Debug)]
pub struct SessionReservation {
    _owner: OwnedMutexGuard<()>,
}

/// A message to send again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetryInput {
    /// The text.
    pub(crate) text: String,
    /// The attached files.
    pub(crate) media: Vec<MediaRef>,
    /// Position from which its first exchange is undone; `None` if that is recorded already.
    pub(crate) replaces: Option<Seq>,
    /// The exchange that is undone.
    pub(crate) undone: Option<UndoReport>,
}

impl Agent {
    /// Undoes everything in a session from position `to` on, and returns its head. Returns `None`
    /// and undoes nothing while a turn is running in the session, because that turn would continue
    /// from what is undone.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session log failed.
    pub async fn rewind(&self, session: &SessionKey, to: Seq) -> Result<Option<Seq>, AgentError> {
        let Some(_reserved) = self.reserve(session) else {
            return Ok(None);
        };
        Ok(Some(
            nanobot_session::rewind(&*self.sessions, session, to).await?,
        ))
    }

    /// Reserves a session, unless a turn runs or waits in it.
    #[must_use]
    pub fn reserve(&self, session: &SessionKey) -> Option<SessionReservation> {
        let owner = self.locks.try_lock(session)?;
        Some(SessionReservation { _owner: owner })
    }

    /// Undoes the last exchange of a session while a turn neither runs nor starts; see
    /// [`undo_last_exchange`]. Returns `None` if there is nothing to undo.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session log failed.
    pub async fn undo(
        &self,
        _reserved: &SessionReservation,
        session: &SessionKey,
    ) -> Result<Option<UndoReport>, AgentError> {
        let secrets = &self.settings.secrets;
        Ok(undo_last_exchange(&*self.sessions, session, None, secrets).await?)
    }

    /// Undoes the last exchange for a command, after the running turn.
    pub(crate) async fn undo_by(
        &self,
        session: &SessionKey,
        by: Option<&MessageId>,
    ) -> Result<Option<UndoReport>, AgentError> {
        let _owner = self.locks.lock(session).await;
        let secrets = &self.settings.secrets;
        Ok(undo_last_exchange(&*self.sessions, session, by, secrets).await?)
    }

    /// Restores an exchange for a command, after the running turn.
    pub(crate) async fn redo_by(
        &self,
        session: &SessionKey,
        by: Option<&MessageId>,
    ) -> Result<bool, AgentError> {
        let _owner = self.locks.lock(session).await;
        Ok(redo_last_exchange(&*self.sessions, session, by).await?)
    }

    /// Returns the message that a retry sends again. If message `by` began the retry before, it is
    /// resumed. Returns `None` if there is nothing to retry.
    pub(crate) async fn retry_input(
        &self,
        session: &SessionKey,
        by: Option<&MessageId>,
    ) -> Result<Option<RetryInput>, AgentError> {
        let view = self.sessions.read(session, ReadFrom::Cursor).await?;
        match by.map(|id| view.recorded(id)) {
            Some(InboundStatus::Ended(_)) => Ok(Some(RetryInput::default())),
            status => {
                let is_recorded = status == Some(InboundStatus::Open);
                Ok(LastExchange::of(&view).map(|exchange| RetryInput {
                    text: exchange.asked(),
                    media: exchange.media(),
                    replaces: (!is_recorded).then_some(exchange.from),
                    undone: (!is_recorded)
                        .then(|| UndoReport::of(&exchange, &self.settings.secrets)),
                }))
            }
        }
    }

    /// Moves a session aside, with everything that is kept about it in memory. Returns `false` if
    /// there is no such session, or its store cannot delete sessions.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session cannot be moved.
    pub async fn delete_session(
        &self,
        _reserved: &SessionReservation,
        session: &SessionKey,
    ) -> Result<bool, AgentError> {
        let Some(catalog) = self.sessions.catalog() else {
            return Ok(false);
        };
        // A summary in the background finds no session afterwards, and ends.
        let _held = self.consolidator.lock_state(session).await;
        let is_deleted = catalog.delete(session).await?;
        if is_deleted {
            self.consolidator
                .record_size(session, 0, Size::default(), false);
            self.context.renew(session);
            self.prefixes.forget(session).await;
        }
        Ok(is_deleted)
    }
}

/// Adds the rewind of an exchange to a view, as if it was recorded, and returns its entry. Returns
/// `None` if that is not the last exchange any more.
pub(super) fn replace_exchange(view: &mut SessionView, from: Seq) -> Option<Entry> {
    if LastExchange::of(view)?.from != from {
        return None;
    }
    let entry = Entry::Rewound { to: from };
    view.records.push(Record {
        seq: view.head,
        entry: entry.clone(),
    });
    Some(entry)
}
