//! Going back in a session, for whoever is not in its lane.

use nanobot_session::Seq;
use nanobot_types::SessionKey;

use super::Agent;
use crate::AgentError;

impl Agent {
    /// Undoes everything in a session from position `to` on, and returns its head. `None`, and
    /// nothing is undone, while a turn is at work in it: that would go on from what is undone.
    ///
    /// # Errors
    /// [`AgentError::Session`].
    pub async fn rewind(&self, session: &SessionKey, to: Seq) -> Result<Option<Seq>, AgentError> {
        let Some(_owner) = self.locks.try_lock(session) else {
            return Ok(None);
        };
        Ok(Some(
            nanobot_session::rewind(&*self.sessions, session, to).await?,
        ))
    }
}
