//! Keeps an agent's conversations within the model's window.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_session::{Entry, ReadFrom, Seq, SessionView, TurnOutcome};
use nanobot_types::{HEARTBEAT_SESSION, SessionKey};

use super::Agent;
use super::log::{Conversation, SessionLog};
use crate::consolidation::{Size, left_behind, old_messages, waits_in};
use crate::{AgentError, CompactReport, Observer, Signal, Teller, Untold};

impl Agent {
    /// To be called when the end of a turn, or the answer to a command, is published: what has
    /// outgrown the model's window is summarised in the background then. Returns at once.
    pub fn turn_published(&self, session: &SessionKey, teller: Arc<dyn Teller>) {
        self.consolidator.start(session, teller);
    }

    /// Summarises everything of a conversation but its newest messages, now.
    ///
    /// # Errors
    /// [`AgentError::Session`] when the session cannot be read; what else goes wrong is in the
    /// report.
    pub async fn compact(&self, session: &SessionKey) -> Result<CompactReport, AgentError> {
        let view = self.sessions.read(session, ReadFrom::Cursor).await?;
        let (sections, tools) = self.prompt_size(session, &view).await;
        let fixed = tools + sections.iter().map(|(_, tokens)| tokens).sum::<usize>();
        self.consolidator
            .note(session, fixed, Size::default(), false);
        Ok(self.consolidator.compact(session, &Untold).await)
    }

    /// Goes on with what earlier processes left to be summarised, in all sessions, in the
    /// background.
    pub async fn resume_summaries(&self) {
        match self.sessions.list().await {
            Ok(sessions) => sessions
                .iter()
                .filter(|session| waits_in(&session.metadata))
                .for_each(|session| self.consolidator.resume(&session.key, Arc::new(Untold))),
            Err(error) => tracing::warn!(%error, "summaries that wait could not be found"),
        }
    }

    /// The same in one session, for a program that runs a single turn.
    pub async fn resume_summary(&self, session: &SessionKey) {
        match self
            .sessions
            .read(session, ReadFrom::Seq(Seq(u64::MAX)))
            .await
        {
            Ok(view) if waits_in(&view.metadata) => {
                self.consolidator.resume(session, Arc::new(Untold))
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, %session, "a summary that waits could not be found")
            }
        }
    }

    /// Whether nothing is being summarised in the background.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.consolidator.is_idle()
    }

    /// Waits until nothing is being summarised in the background.
    pub async fn settled(&self) {
        self.consolidator.idle().await;
    }

    /// Ends what runs in the background: it may go on for `grace`. What was not finished goes on
    /// when its session has a turn after a restart.
    pub async fn shut_down(&self, grace: Duration) {
        self.consolidator.shut_down(grace).await;
    }

    /// Takes note of what a turn left behind. One that failed is no reason to ask a model again.
    pub(super) fn note_size(&self, session: &SessionKey, log: &SessionLog, ended: TurnOutcome) {
        let Conversation {
            fixed, size, waits, ..
        } = log.conversation;
        if ended != TurnOutcome::Failed {
            self.consolidator.note(session, fixed, size, waits);
        }
    }

    /// Puts what does not fit any more into the history where the model failed to summarise it.
    /// Whatever goes wrong, the turn goes on.
    pub(super) async fn make_room(
        &self,
        session: &SessionKey,
        view: SessionView,
        observer: &Arc<dyn Observer>,
    ) -> Result<SessionView, AgentError> {
        if !self.consolidator.must_make_room(&view, session) {
            return Ok(view);
        }
        let teller = ObserverTeller(observer.clone());
        if let Err(error) = self.consolidator.make_room(session, &teller).await {
            tracing::warn!(%error, %session, "no room could be made");
        }
        Ok(self.sessions.read(session, ReadFrom::Cursor).await?)
    }

    /// Leaves earlier heartbeats out of a heartbeat's conversation but for the newest messages. What
    /// they found was told or written down then, so nothing is summarised.
    pub(super) async fn shorten_heartbeat(
        &self,
        session: &SessionKey,
        view: SessionView,
    ) -> Result<SessionView, AgentError> {
        if session.as_str() != HEARTBEAT_SESSION {
            return Ok(view);
        }
        let Some(upto) = old_messages(&view, self.settings.heartbeat_keeps) else {
            return Ok(view);
        };
        self.sessions
            .append(session, view.head, vec![Entry::Consolidated { upto }])
            .await?;
        Ok(self.sessions.read(session, ReadFrom::Cursor).await?)
    }

    /// Begins a new conversation in a session: nothing said before is sent to the model again.
    /// Nothing is deleted, and what was not summarised is, once [`Agent::turn_published`] is
    /// called.
    ///
    /// # Errors
    /// [`AgentError::Session`].
    pub async fn reset(&self, session: &SessionKey) -> Result<(), AgentError> {
        let _owner = self.locks.lock(session).await;
        let _held = self.consolidator.hold(session).await;
        let view = self
            .sessions
            .read(session, ReadFrom::Seq(Seq(u64::MAX)))
            .await?;
        let mut entries = vec![Entry::Reset];
        if self.consolidator.settings().enabled {
            entries.insert(0, left_behind(&view));
        }
        self.sessions.append(session, view.head, entries).await?;
        self.consolidator
            .note(session, 0, Size::default(), view.cursor < view.head);
        self.context.renew(session);
        Ok(())
    }
}

/// Tells who watches a turn.
pub(super) struct ObserverTeller(pub(super) Arc<dyn Observer>);

#[async_trait]
impl Teller for ObserverTeller {
    async fn tell(&self, notice: String) {
        self.0.signal(Signal::Notice(notice));
    }
}
