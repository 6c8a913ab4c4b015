//! Failures of scheduled jobs. A series of them is reported once: a job that fails every few minutes
//! must not flood a chat.

use nanobot_session::{Entry, SessionView, TurnOutcome};
use nanobot_types::{SessionKey, SessionKind, TraceId};

use super::TurnReport;

/// Ends the report of the first failure.
const NOTE: &str = "Further failures of this job are not sent until a run succeeds; `nanobot cron history` lists them.";

/// Returns `true` for a run of a job whose previous run failed.
pub(super) fn failed_before(session: &SessionKey, view: &SessionView, run: &TraceId) -> bool {
    if session.kind() != SessionKind::Job {
        return false;
    }
    let mut newest_first = view.records.iter().rev();
    let previous = newest_first.find_map(|record| match &record.entry {
        Entry::TurnEnded(end) if end.turn != *run => Some(end.outcome),
        _ => None,
    });
    previous == Some(TurnOutcome::Failed)
}

/// Returns the report of a turn without the text of a failure that only repeats the previous one.
/// The record of the run keeps it.
pub(super) fn report_once(
    session: &SessionKey,
    failed_before: bool,
    report: TurnReport,
) -> TurnReport {
    if session.kind() != SessionKind::Job || report.ended != TurnOutcome::Failed {
        return report;
    }
    let visible = report
        .visible
        .filter(|_| !failed_before)
        .map(|text| format!("{text}\n\n{NOTE}"));
    TurnReport { visible, ..report }
}
