//! Ends a turn without running it, or without running it any further.

use nanobot_session::{Entry, MessageEntry, ReadFrom, TurnEnd, TurnOutcome};
use nanobot_types::TraceId;

use super::log::SessionLog;
use super::turn_start::TurnStart;
use super::{Agent, TurnReport, recorded_report};
use crate::AgentError;
use crate::engine::TurnFacts;

impl Agent {
    /// Records the end of the turn that `entry` begins, whatever the log contains of it so far. No
    /// model is called. An end that is already recorded stays and is returned again.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session log failed; the caller should retry.
    pub(crate) async fn conclude(
        &self,
        facts: &TurnFacts,
        entry: MessageEntry,
        trace: TraceId,
        outcome: TurnOutcome,
        visible: Option<String>,
    ) -> Result<TurnReport, AgentError> {
        let _owner = self.locks.lock(&facts.session).await;
        let view = self.sessions.read(&facts.session, ReadFrom::Cursor).await?;
        let (mut entries, inbound) = match TurnStart::of(&view, entry.inbound.as_ref()) {
            TurnStart::Ended(end) => return Ok(recorded_report(trace, end)),
            TurnStart::Fresh { mut repairs, .. } => {
                let inbound = entry.inbound.iter().cloned().collect();
                repairs.push(Entry::Message(entry));
                (repairs, inbound)
            }
            TurnStart::Resumed(resumed) => {
                let mut repairs = resumed.repairs;
                repairs.extend(resumed.abandoned);
                (repairs, resumed.inbound)
            }
        };
        let end = TurnEnd {
            turn: trace.clone(),
            inbound,
            outcome,
            visible: visible.clone(),
        };
        entries.push(Entry::TurnEnded(end));
        SessionLog::new(self.sessions.clone(), facts, view.head)
            .append(entries)
            .await?;
        Ok(TurnReport {
            trace,
            ended: outcome,
            visible,
            stream: None,
        })
    }
}
