//! Checks that every acknowledged message is in a session once and ends visibly once, or is in the
//! ledger with a reason.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, HistoryIndex, brief, steps};
use crate::history::HistoryEvent;
use crate::report::Property::NothingLost;
use crate::script::{Visible, is_answer, marker_of_call, markers};
use crate::system::{LedgerState, StateRow, SystemStep};

pub(super) fn check(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    accepted_before_acknowledged(facts, findings);
    answered(facts, findings);
    repeated_sends(facts, findings);
    uncertain(facts, findings);
    for event in facts.events {
        if let HistoryEvent::Stuck { life, what } = event {
            findings.judge(
                NothingLost,
                *life,
                Some(format!("it does not come to rest: {}", brief(what))),
            );
        }
    }
}

/// Checks that a message was in the ledger before it was acknowledged to the platform.
fn accepted_before_acknowledged(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    for (life, checkpoint) in facts.checkpoints {
        let offset = facts.acknowledged.get(life).copied().unwrap_or_default();
        let known: BTreeSet<String> = checkpoint
            .ledger
            .iter()
            .filter(|row| row.inbound)
            .flat_map(|row| markers(&row.text))
            .collect();
        for pushed in facts
            .pushed
            .iter()
            .filter(|pushed| pushed.life <= *life && pushed.update < offset)
        {
            findings.expect(NothingLost, *life, known.contains(pushed.marker), || {
                format!(
                    "{} was acknowledged and is not in the ledger",
                    pushed.marker
                )
            });
        }
    }
}

fn answered(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut said = BTreeMap::<String, u32>::new();
    for step in steps(&facts.end) {
        if let SystemStep::Said(text) = step {
            markers(text)
                .into_iter()
                .for_each(|marker| *said.entry(marker).or_default() += 1);
        }
    }
    let texts_by_marker = texts_by_marker(facts);
    let answers = |text: &str| match Visible::of(text) {
        Visible::Done(markers) => markers,
        Visible::Told(marker) => texts_by_marker.get(&marker).cloned().unwrap_or_default(),
        Visible::Note(_) | Visible::Other => Vec::new(),
    };
    let ended_by = |row: &StateRow| {
        if row.inbound {
            markers(&row.text)
        } else {
            answers(&row.text)
        }
    };
    let visible: BTreeSet<String> = facts
        .sent
        .iter()
        .flat_map(|(_, _, text)| answers(text))
        .collect();
    let listed: BTreeSet<String> = facts
        .end
        .ledger
        .iter()
        .filter(|row| has_reason(row))
        .flat_map(ended_by)
        .collect();
    let given_up = facts
        .end
        .ledger
        .iter()
        .filter(|row| row.inbound && has_reason(row))
        .count();
    findings.report.tally.given_up += u64::try_from(given_up).unwrap_or(u64::MAX);
    for pushed in &facts.pushed {
        let times = said.get(pushed.marker).copied().unwrap_or_default();
        let is_listed = listed.contains(pushed.marker);
        let once = times == 1 || (times == 0 && is_listed);
        findings.expect(NothingLost, facts.last_life, once, || {
            format!("{} is {times} times in its session", pushed.marker)
        });
        let ends = visible.contains(pushed.marker) || is_listed;
        findings.expect(NothingLost, facts.last_life, ends, || {
            format!("{} was not answered, and nothing says why", pushed.marker)
        });
    }
}

/// Returns, for each turn that wrote to its own chat, the markers that were waiting in the chat at
/// the time. A turn that has written to its chat since the last of them arrived owes no other
/// reply.
fn texts_by_marker(facts: &HistoryIndex<'_>) -> BTreeMap<String, Vec<String>> {
    let mut texts_by_marker = BTreeMap::new();
    for log in facts.end.sessions.values() {
        let mut waiting = Vec::new();
        for step in &log.steps {
            match step {
                SystemStep::Said(text) => waiting.extend(markers(text)),
                SystemStep::Answered(_) | SystemStep::Ended(_) => waiting.clear(),
                SystemStep::Called(calls) => {
                    let owners = calls.iter().filter(|call| {
                        facts
                            .order_of_call(call)
                            .is_some_and(|order| is_answer(call, order))
                    });
                    texts_by_marker.extend(
                        owners
                            .filter_map(|call| marker_of_call(call))
                            .map(|marker| (marker, waiting.clone())),
                    );
                }
                SystemStep::Returned { .. } => {}
            }
        }
    }
    texts_by_marker
}

fn has_reason(row: &StateRow) -> bool {
    matches!(row.standing, LedgerState::Uncertain | LedgerState::Failed)
}

/// Checks that a text is seen twice only if a kill interrupted its first send, and that every text
/// recorded as sent was seen.
fn repeated_sends(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut first = BTreeMap::<(i64, &str), u32>::new();
    for (life, chat, text) in facts
        .sent
        .iter()
        .filter(|(_, _, text)| Visible::of(text) != Visible::Other)
    {
        let Some(before) = first.insert((*chat, text), *life) else {
            findings.judge(NothingLost, *life, None);
            continue;
        };
        let in_send = facts
            .checkpoints
            .get(&before)
            .is_some_and(|checkpoint| is_sending(&checkpoint.ledger, text));
        if in_send {
            findings.report.tally.duplicates += 1;
        }
        findings.expect(NothingLost, *life, in_send, || {
            format!("{text:?} was sent twice to {chat}")
        });
    }
    let seen: BTreeSet<&str> = first.keys().map(|(_, text)| *text).collect();
    let done = facts
        .end
        .ledger
        .iter()
        .filter(|row| !row.inbound && row.standing == LedgerState::Done);
    for row in done.filter(|row| Visible::of(&row.text) != Visible::Other) {
        findings.expect(
            NothingLost,
            facts.last_life,
            seen.contains(row.text.as_str()),
            || format!("{:?} counts as sent and never was", row.text),
        );
    }
}

fn is_sending(ledger: &[StateRow], text: &str) -> bool {
    ledger
        .iter()
        .any(|row| !row.inbound && row.standing == LedgerState::Sending && row.text == text)
}

/// Checks that only sends interrupted by a kill are uncertain.
fn uncertain(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut interrupted = BTreeSet::new();
    for (life, checkpoint) in facts.checkpoints {
        let sending: Vec<&StateRow> = checkpoint
            .ledger
            .iter()
            .filter(|row| row.standing == LedgerState::Sending)
            .collect();
        if *life < facts.last_life && !sending.is_empty() {
            findings.report.tally.kills_in_send += 1;
        }
        interrupted.extend(sending.into_iter().map(|row| row.name.as_str()));
    }
    for row in facts
        .end
        .ledger
        .iter()
        .filter(|row| row.standing == LedgerState::Uncertain)
    {
        findings.report.tally.uncertain += 1;
        findings.expect(
            NothingLost,
            facts.last_life,
            interrupted.contains(row.name.as_str()),
            || {
                format!(
                    "{:?} is uncertain, but no kill interrupted its send",
                    row.text
                )
            },
        );
    }
}
