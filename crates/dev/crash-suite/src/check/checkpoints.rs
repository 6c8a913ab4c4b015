//! Checks that every state left by a kill loads again, and that the requests built from it are
//! valid.

use std::collections::BTreeSet;

use super::{Findings, HistoryIndex, brief};
use crate::history::HistoryEvent;
use crate::report::Property::CheckpointValidity;
use crate::system::SystemStep;

pub(super) fn check(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    for (life, checkpoint) in facts.checkpoints {
        findings.judge(CheckpointValidity, *life, checkpoint.problem.clone());
        for (name, log) in &checkpoint.sessions {
            let problem = log.problem.clone().or_else(|| disorder(&log.steps));
            findings.judge(
                CheckpointValidity,
                *life,
                problem.map(|problem| format!("{name}: {problem}")),
            );
        }
    }
    let mut has_owner = true;
    for event in facts.events {
        match event {
            HistoryEvent::Started { owners, .. } => has_owner = !owners.is_empty(),
            HistoryEvent::Refused { life, said, .. } if !has_owner => {
                let what = format!("nothing starts on what is on disk: {}", brief(said));
                findings.judge(CheckpointValidity, *life, Some(what));
            }
            HistoryEvent::Violation { life, what } => {
                findings.judge(CheckpointValidity, *life, Some(what.clone()));
            }
            _ => {}
        }
    }
}

/// Checks that every call is recorded before its result, has at most one result, and that only the
/// newest calls have none.
fn disorder(steps: &[SystemStep]) -> Option<String> {
    let mut open = BTreeSet::new();
    let mut known = BTreeSet::new();
    for step in steps {
        match step {
            SystemStep::Called(calls) => {
                if !open.is_empty() {
                    return Some(format!(
                        "the calls {open:?} have no result, and more were made"
                    ));
                }
                for call in calls {
                    if !known.insert(call) {
                        return Some(format!("the call {call} is recorded twice"));
                    }
                    open.insert(call);
                }
            }
            SystemStep::Returned { call, .. } if !open.remove(call) => {
                return Some(format!("a second result of {call}, or one without a call"));
            }
            SystemStep::Answered(_) | SystemStep::Ended(_) if !open.is_empty() => {
                return Some(format!(
                    "the calls {open:?} have no result, and the turn went on"
                ));
            }
            SystemStep::Said(_)
            | SystemStep::Returned { .. }
            | SystemStep::Answered(_)
            | SystemStep::Ended(_) => {}
        }
    }
    None
}
