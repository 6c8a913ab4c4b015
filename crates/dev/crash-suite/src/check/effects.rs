//! Checks that a recorded effect is never repeated, and that one that began without being recorded
//! is reported as unknown. A call without effects (fetching a page) is repeated and has its result.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, HistoryIndex, brief, steps};
use crate::report::Property::EffectOnce;
use crate::script::{is_append, is_fetch, marker_of_call};
use crate::stage::ON_PAGE;
use crate::system::{Checkpoint, System, SystemStep};

pub(super) fn check(system: &dyn System, facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut runs = BTreeMap::<&str, u32>::new();
    for (life, token) in &facts.effects {
        let count = runs.entry(token).or_default();
        *count += 1;
        let recorded = facts
            .checkpoints
            .get(life)
            .is_some_and(|then| called(then).contains(*token));
        let problem = match (*count, recorded) {
            (1, true) => None,
            (1, false) => Some(format!("{token} ran before its call was recorded")),
            (count, _) => Some(format!("{token} ran {count} times")),
        };
        findings.judge(EffectOnce, *life, problem);
    }
    let results = results(&facts.end);
    let interrupted = interrupted(facts);
    let given_up = facts.given_up();
    let is_given_up = |call| marker_of_call(call).is_some_and(|marker| given_up.contains(&marker));
    for call in called(&facts.end)
        .into_iter()
        .filter(|call| performs(facts, call, is_fetch))
    {
        let result = results
            .get(call)
            .and_then(|results| results.first())
            .copied()
            .unwrap_or("nothing");
        let problem = (!result.contains(ON_PAGE) && !is_given_up(call))
            .then(|| format!("{call} did not read the page: {}", brief(result)));
        findings.judge(EffectOnce, facts.last_life, problem);
    }
    for call in called(&facts.end)
        .into_iter()
        .filter(|call| performs(facts, call, is_append))
    {
        let ran = runs.get(call).copied().unwrap_or_default();
        let interrupted_at = interrupted.get(call).copied();
        let problem = match results.get(call).map(Vec::as_slice) {
            Some([result]) if system.is_unknown_outcome(result) => {
                findings.report.tally.unknown_outcomes += 1;
                interrupted_at
                    .is_none()
                    .then(|| format!("{call} is said to be unknown, but nothing interrupted it"))
            }
            Some([result]) if interrupted_at.is_some() => Some(format!(
                "{call} was interrupted and went on silently: {}",
                brief(result)
            )),
            Some([result]) if system.is_success(result) && ran == 1 => None,
            Some([result]) => Some(format!(
                "{call} ran {ran} times, and its result is {}",
                brief(result)
            )),
            None if is_given_up(call) => None,
            other => Some(format!(
                "{call} has {} results",
                other.map_or(0, <[_]>::len)
            )),
        };
        findings.judge(
            EffectOnce,
            interrupted_at.unwrap_or(facts.last_life),
            problem,
        );
    }
}

/// Returns `true` if `act` holds for a call and the order that caused it.
fn performs(facts: &HistoryIndex<'_>, call: &str, act: impl Fn(&str, &str) -> bool) -> bool {
    facts
        .order_of_call(call)
        .is_some_and(|order| act(call, order))
}

fn called(checkpoint: &Checkpoint) -> BTreeSet<&str> {
    let calls = steps(checkpoint).filter_map(|step| match step {
        SystemStep::Called(calls) => Some(calls),
        _ => None,
    });
    calls.flatten().map(String::as_str).collect()
}

fn results(checkpoint: &Checkpoint) -> BTreeMap<&str, Vec<&str>> {
    let mut results = BTreeMap::<&str, Vec<&str>>::new();
    for step in steps(checkpoint) {
        if let SystemStep::Returned { call, text } = step {
            results.entry(call).or_default().push(text);
        }
    }
    results
}

/// Returns the calls that a kill left without a result, each with the first such kill.
fn interrupted<'a>(facts: &HistoryIndex<'a>) -> BTreeMap<&'a str, u32> {
    let mut interrupted = BTreeMap::new();
    for (life, checkpoint) in facts
        .checkpoints
        .iter()
        .filter(|(life, _)| **life < facts.last_life)
    {
        let results = results(checkpoint);
        for call in called(checkpoint)
            .into_iter()
            .filter(|call| !results.contains_key(call))
        {
            interrupted.entry(call).or_insert(*life);
        }
    }
    interrupted
}
