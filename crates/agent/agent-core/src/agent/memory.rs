//! What a turn has to do with memory: who hears it, and what it changed there.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nanobot_memory::{Audience, Reason};
use nanobot_session::{Entry, SessionView};
use nanobot_types::{SessionKey, TraceId};
use tokio::time::Instant;

use super::Agent;
use crate::engine::TurnFacts;
use crate::{Audiences, audience};

/// How often changes are looked for behind turns that ran no tool: somebody may have written by
/// hand.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// When changes of memory were last looked for.
#[derive(Debug, Default)]
pub(super) struct LastLook(Mutex<Option<Instant>>);

impl LastLook {
    /// Whether it is time to look; if so, it is looked now.
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= LOOK_EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

impl Agent {
    /// Who hears a session, and so whose memory may be told there.
    pub async fn audience(&self, session: &SessionKey) -> Audience {
        Audiences::new(self.sessions.clone(), self.context.memory().is_divided())
            .of(session)
            .await
    }

    /// What `/memory` answers in a session: how much is remembered for those who hear it, and what
    /// changed lately.
    pub async fn memory_overview(&self, session: &SessionKey) -> String {
        let scopes = self.audience(session).await.scopes();
        nanobot_memory::overview(
            &**self.context.memory(),
            &scopes,
            chrono::Local::now().date_naive(),
        )
        .await
    }

    /// What has to be recorded of who hears the message of a turn.
    pub(super) fn heard(&self, view: &SessionView, facts: &TurnFacts) -> Option<Entry> {
        if self.context.memory().is_divided() {
            audience::heard(&view.metadata, facts)
        } else {
            None
        }
    }

    /// Keeps versions of what a turn has changed in memory with its tools, or somebody else while
    /// it ran. That this cannot be done is reported, and is no failure of the turn.
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
            if let Err(error) = versions.notice(&scope, &reason).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, session = %session, "changes of memory could not be kept as versions");
            }
        }
    }
}
