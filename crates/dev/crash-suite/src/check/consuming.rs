//! Checks that of all processes racing for a home exactly one gets it, and that a turn runs once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, HistoryIndex, brief, steps};
use crate::history::HistoryEvent;
use crate::report::Property::ConsumeOnce;
use crate::system::SystemStep;

pub(super) fn check(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    races(facts, findings);
    endings(facts, findings);
    repeated_requests(facts, findings);
}

fn races(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut has_owner = false;
    for event in facts.events {
        match event {
            HistoryEvent::Started {
                life,
                racers,
                owners,
            } => {
                has_owner = !owners.is_empty();
                if *racers > 1 {
                    let what = || format!("{} of {racers} processes own the home", owners.len());
                    findings.expect(ConsumeOnce, *life, owners.len() == 1, what);
                }
            }
            HistoryEvent::Refused {
                life,
                code,
                names_owner,
                said,
            } if has_owner => {
                let holds = *names_owner && code.is_some_and(|code| code != 0);
                let what = || {
                    format!(
                        "a process was refused with code {code:?}, saying {:?}",
                        brief(said)
                    )
                };
                findings.expect(ConsumeOnce, *life, holds, what);
            }
            _ => {}
        }
    }
}

/// Checks that a message ends one turn.
fn endings(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut ended = BTreeMap::<&str, u32>::new();
    for step in steps(&facts.end) {
        if let SystemStep::Ended(messages) = step {
            messages
                .iter()
                .for_each(|message| *ended.entry(message).or_default() += 1);
        }
    }
    for (message, times) in ended {
        findings.expect(ConsumeOnce, facts.last_life, times == 1, || {
            format!("the turn of {message} ended {times} times")
        });
    }
}

/// Checks that no request to the model is repeated within a life.
fn repeated_requests(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for asked in &facts.asked {
        let is_new = seen.insert((asked.life, asked.chat, asked.body));
        findings.expect(ConsumeOnce, asked.life, is_new, || {
            format!("chat {}: the same request twice", asked.chat)
        });
    }
}
