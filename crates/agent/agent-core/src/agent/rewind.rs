//! Rewinds a session, for callers outside its lane.

use nanobot_session::Seq;
use nanobot_types::SessionKey;

use super::Agent;
use crate::AgentError;

impl Agent {
    /// Undoes everything in a session from position `to` on, and returns its head. Returns `None`
    /// and undoes nothing while a turn is running in the session, because that turn would continue
    /// from what is undone.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session log failed.
    pub async fn rewind(&self, session: &SessionKey, to: Seq) -> Result<Option<Seq>, AgentError> {
        let Some(_owner) = self.locks.try_lock(session) else {
            return Ok(None);
        };
        Ok(Some(
            nanobot_session::rewind(&*self.sessions, session, to).await?,
        ))
    }
}
