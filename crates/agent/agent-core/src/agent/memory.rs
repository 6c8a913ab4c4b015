//! Memory of a turn: its audience, and versions of what it changed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nanobot_memory::{Audience, Reason};
use nanobot_session::{Entry, SessionView};
use nanobot_types::{SessionKey, TraceId};
use tokio::time::Instant;

use super::Agent;
use crate::engine::TurnFacts;
use crate::{AudienceLookup, audience};

/// Minimum interval between checks for changes after turns that ran no tool. Such changes come from
/// people who edit the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Time of the last check for changes of memory.
#[derive(Debug, Default)]
pub(super) struct MemoryCheckTimer(Mutex<Option<Instant>>);

impl MemoryCheckTimer {
    /// Returns `true` if a check is due, and then resets the interval.
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= CHECK_INTERVAL);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

impl Agent {
    /// Returns the audience of a session, which determines whose memory may be used there.
    pub async fn audience(&self, session: &SessionKey) -> Audience {
        AudienceLookup::new(self.sessions.clone(), self.context.memory().is_divided())
            .of(session)
            .await
    }

    /// Returns the text of `/memory`: how much is remembered for the session's audience, and what
    /// changed recently.
    pub async fn memory_overview(&self, session: &SessionKey) -> String {
        let scopes = self.audience(session).await.scopes();
        nanobot_memory::overview(
            &**self.context.memory(),
            &scopes,
            chrono::Local::now().date_naive(),
        )
        .await
    }

    /// Returns the entry to record if the message of a turn changes the session's audience.
    pub(super) fn audience_change(&self, view: &SessionView, facts: &TurnFacts) -> Option<Entry> {
        if self.context.memory().is_divided() {
            audience::audience_change(&view.metadata, facts)
        } else {
            None
        }
    }

    /// Records versions of the memory that the turn changed with its tools, or that others changed
    /// while it ran. A failure is logged and does not fail the turn.
    pub(super) async fn notice_memory(
        &self,
        session: &SessionKey,
        turn: &TraceId,
        ran_tools: bool,
    ) {
        let is_due = self.last_look.is_due();
        let Some(versions) = self
            .context
            .memory()
            .versions()
            .filter(|_| ran_tools || is_due)
        else {
            return;
        };
        let reason = if ran_tools {
            Reason::Turn {
                session: session.clone(),
                turn: turn.clone(),
            }
        } else {
            Reason::Found
        };
        for scope in self.audience(session).await.scopes() {
            if let Err(error) = versions.record_changes(&scope, &reason).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, session = %session, "could not record versions of memory changes");
            }
        }
    }
}
