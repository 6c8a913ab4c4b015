//! Keeps an agent's conversations within the model's window.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_session::{Entry, ReadFrom, Seq, SessionView, TurnOutcome};
use nanobot_types::{NoticeKind, SessionKey, SessionKind, TraceId};

use super::Agent;
use super::log::{ConversationSize, SessionLog};
use crate::consolidation::{Size, metadata_has_pending, old_messages};
use crate::{
    AgentError, BacklogQuestion, BacklogReport, CompactReport, NoNotifier, Notifier, Observer,
    QuestionOutcome, Signal,
};

impl Agent {
    /// Starts background summarisation if the conversation has outgrown the model's window. To be
    /// called after the end of a turn, or the reply to a command, is published. Returns at once.
    pub fn turn_published(&self, session: &SessionKey, teller: Arc<dyn Notifier>) {
        self.consolidator.start(session, teller);
    }

    /// Summarises everything in a conversation except its newest messages, now. Messages that the
    /// person agreed to summarise may take hours, so they are left to the background task that
    /// [`Agent::turn_published`] starts.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session could not be read. Other failures are in the
    /// report.
    pub async fn compact(&self, session: &SessionKey) -> Result<CompactReport, AgentError> {
        let view = self.sessions.read(session, ReadFrom::Cursor).await?;
        let (sections, (_, tools)) = self.prompt_size(session, &view).await;
        let fixed = tools + sections.iter().map(|(_, tokens)| tokens).sum::<usize>();
        self.consolidator
            .record_size(session, fixed, Size::default(), false);
        let report = self.consolidator.compact(session, &NoNotifier).await;
        if report.background.is_some() {
            self.consolidator.record_pending(session);
        }
        Ok(report)
    }

    /// Decides about older messages that wait to be summarised, because they are many
    /// ([`ConsolidationSettings::max_unasked_requests`](crate::ConsolidationSettings)). With
    /// consent, they are summarised in the background once [`Agent::turn_published`] is called.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session could not be read or written.
    pub async fn summarise_backlog(
        &self,
        session: &SessionKey,
        agrees: bool,
    ) -> Result<BacklogReport, AgentError> {
        let report = self.consolidator.decide(session, agrees).await?;
        if agrees {
            self.consolidator.end_pause(session);
            self.consolidator.record_pending(session);
        }
        Ok(report)
    }

    /// Records that the reply of a turn will contain the question of a [`CompactReport`] or a
    /// [reset](Agent::reset). To be called before that reply is stored: after a crash in between,
    /// the question is neither lost nor asked twice.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session could not be read or written.
    pub async fn note_asking_reply(
        &self,
        session: &SessionKey,
        turn: &TraceId,
    ) -> Result<(), AgentError> {
        Ok(self.consolidator.note_asking_reply(session, turn).await?)
    }

    /// Records that the question of a [`CompactReport`] or a [reset](Agent::reset) is durable, so
    /// that it is not asked again. Returns at once.
    pub fn question_published(&self, session: &SessionKey) {
        self.consolidator.question_published(session);
    }

    /// Resumes, in the background, the summaries that earlier processes left unfinished in any
    /// session.
    pub async fn resume_summaries(&self) {
        match self.sessions.list().await {
            Ok(sessions) => sessions
                .iter()
                .filter(|session| metadata_has_pending(&session.metadata))
                .for_each(|session| self.consolidator.resume(&session.key, Arc::new(NoNotifier))),
            Err(error) => tracing::warn!(%error, "could not list unfinished summaries"),
        }
    }

    /// Resumes the unfinished summary of one session, for a program that runs a single turn.
    pub async fn resume_summary(&self, session: &SessionKey) {
        match self
            .sessions
            .read(session, ReadFrom::Seq(Seq(u64::MAX)))
            .await
        {
            Ok(view) if metadata_has_pending(&view.metadata) => {
                self.consolidator.resume(session, Arc::new(NoNotifier));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, %session, "could not read an unfinished summary");
            }
        }
    }

    /// Returns `true` if no summary is running in the background.
    #[must_use]
    pub fn is_background_idle(&self) -> bool {
        self.consolidator.is_idle()
    }

    /// Waits until no summary is running in the background.
    pub async fn background_idle(&self) {
        self.consolidator.idle().await;
    }

    /// Shuts background work down: it may continue for `grace`. Unfinished summaries are resumed
    /// after a restart.
    pub async fn shut_down(&self, grace: Duration) {
        self.consolidator.shut_down(grace).await;
    }

    /// Records the size of a conversation after a turn. A failed turn is skipped, because it is no
    /// reason to call a model again.
    pub(super) fn record_size(&self, session: &SessionKey, log: &SessionLog, ended: TurnOutcome) {
        let ConversationSize {
            fixed,
            size,
            has_pending,
            ..
        } = log.conversation;
        if ended != TurnOutcome::Failed {
            self.consolidator
                .record_size(session, fixed, size, has_pending);
        }
    }

    /// Writes messages that no longer fit into a request to the history verbatim, if the model
    /// failed to summarise them. If that fails too, the turn continues anyway.
    pub(super) async fn make_room(
        &self,
        session: &SessionKey,
        view: SessionView,
        observer: &Arc<dyn Observer>,
    ) -> Result<SessionView, AgentError> {
        if !self.consolidator.must_make_room(&view, session) {
            return Ok(view);
        }
        let teller = ObserverNotifier(observer.clone());
        if let Err(error) = self.consolidator.make_room(session, &teller).await {
            tracing::warn!(%error, %session, "could not archive old messages");
        }
        Ok(self.sessions.read(session, ReadFrom::Cursor).await?)
    }

    /// Drops all but the newest messages of earlier heartbeats from a heartbeat's conversation.
    /// Their findings were reported or written down at the time, so nothing is summarised.
    pub(super) async fn shorten_heartbeat(
        &self,
        session: &SessionKey,
        view: SessionView,
    ) -> Result<SessionView, AgentError> {
        if session.kind() != SessionKind::Heartbeat {
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

    /// Begins a new conversation in a session: no earlier message is sent to the model again.
    /// Nothing is deleted. Messages that were not summarised yet are summarised once
    /// [`Agent::turn_published`] is called. If they are many, they wait for consent, and the result
    /// is the question for the person.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session log failed.
    pub async fn reset(&self, session: &SessionKey) -> Result<Option<String>, AgentError> {
        let _owner = self.locks.lock(session).await;
        let _held = self.consolidator.lock_state(session).await;
        let view = self.sessions.read(session, ReadFrom::Cursor).await?;
        let mut entries = vec![Entry::Reset];
        let (mut is_due, mut question) = (false, None);
        if self.consolidator.settings().enabled {
            let (entry, due, asked) = self.consolidator.reset_entry(session, &view).await;
            entries.insert(0, entry);
            (is_due, question) = (due, asked);
        }
        self.sessions.append(session, view.head, entries).await?;
        self.consolidator
            .record_size(session, 0, Size::default(), is_due);
        self.context.renew(session);
        self.engine.ledger().restart_session(session).await;
        Ok(question)
    }
}

/// Sends notices to the observer of a turn.
pub(super) struct ObserverNotifier(pub(super) Arc<dyn Observer>);

#[async_trait]
impl Notifier for ObserverNotifier {
    async fn notify(&self, _: NoticeKind, notice: String) {
        self.0.signal(Signal::Notice(notice));
    }

    async fn ask(&self, question: BacklogQuestion) -> QuestionOutcome {
        self.0.signal(Signal::Notice(question.text));
        QuestionOutcome::Offered
    }
}
