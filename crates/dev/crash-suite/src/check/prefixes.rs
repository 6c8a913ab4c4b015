//! Checks that earlier records are a prefix of later ones: session files byte for byte across
//! kills, and requests to the model element for element across everything.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Findings, HistoryIndex, brief};
use crate::report::Property::PrefixContinuation;

pub(super) fn check(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    files(facts, findings);
    requests(facts, findings);
}

fn files(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let later = facts.checkpoints.iter().skip(1);
    for ((_, before), (life, after)) in facts.checkpoints.iter().zip(later) {
        for (name, log) in &before.sessions {
            let is_prefix = after
                .sessions
                .get(name)
                .is_some_and(|now| now.bytes.starts_with(&log.bytes));
            findings.expect(PrefixContinuation, *life, is_prefix, || {
                format!("{name} does not begin as it was")
            });
        }
    }
}

fn requests(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    let mut newest = BTreeMap::<i64, Vec<&str>>::new();
    for asked in &facts.asked {
        let prompt = prompt(asked.body);
        if let Some(before) = newest.get(&asked.chat) {
            let differs = before.iter().zip(&prompt).position(|(old, new)| old != new);
            let differs = differs.or_else(|| (prompt.len() < before.len()).then_some(prompt.len()));
            let problem = differs.map(|place| {
                let [old, new] = [before, &prompt]
                    .map(|list| brief(list.get(place).copied().unwrap_or_default()));
                format!(
                    "chat {}: element {place} of the request was {old:?} and is {new:?}",
                    asked.chat
                )
            });
            findings.judge(PrefixContinuation, asked.life, problem);
        }
        newest.insert(asked.chat, prompt);
    }
}

/// Returns the part of a request that a prompt cache covers: tools, then messages, as written in
/// the body.
fn prompt(body: &str) -> Vec<&str> {
    #[derive(Deserialize)]
    struct RequestBody<'a> {
        #[serde(borrow, default)]
        tools: Vec<&'a RawValue>,
        #[serde(borrow, default)]
        messages: Vec<&'a RawValue>,
    }
    let Ok(RequestBody { tools, messages }) = serde_json::from_str(body) else {
        return Vec::new();
    };
    tools
        .into_iter()
        .chain(messages)
        .map(RawValue::get)
        .collect()
}
