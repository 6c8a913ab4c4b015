//! Checks that copies of a home continue identically: the next request is the same, byte for byte,
//! and so is everything after it.
//!
//! A chat is compared only if one message was waiting in it. With two messages it depends on timing
//! whether the second one still joins the turn of the first.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, HistoryIndex, brief, is_open, order_of};
use crate::history::Continuation;
use crate::report::Property::{ForkDeterminism, RecoveryDeterminism};

pub(super) fn check(facts: &HistoryIndex<'_>, findings: &mut Findings) {
    for (life, copies) in &facts.forks {
        let chats = comparable(facts, *life);
        for copy in *copies {
            let stuck = copy
                .stuck
                .as_ref()
                .map(|what| format!("a copy does not come to rest: {}", brief(what)));
            findings.judge(ForkDeterminism, *life, stuck.or_else(|| repeated(copy)));
        }
        let Some((first, others)) = copies.split_first() else {
            continue;
        };
        for chat in &chats {
            let next = first
                .asked
                .get(&chat.to_string())
                .and_then(|asked| asked.first());
            for other in others {
                let same = next
                    == other
                        .asked
                        .get(&chat.to_string())
                        .and_then(|asked| asked.first());
                findings.expect(RecoveryDeterminism, *life, same, || {
                    format!("chat {chat}: the next requests of two copies differ")
                });
                findings.judge(ForkDeterminism, *life, difference(first, other, *chat));
            }
            let parents = facts
                .asked
                .iter()
                .find(|asked| asked.chat == *chat && asked.life > *life);
            let same = next.is_none_or(|next| parents.is_some_and(|asked| asked.body == *next));
            findings.expect(RecoveryDeterminism, *life, same, || {
                format!("chat {chat}: the next request of a copy is not that of its original")
            });
        }
    }
}

/// Returns the chats in which exactly one message was waiting when a life ended, acknowledged or
/// not.
fn comparable(facts: &HistoryIndex<'_>, life: u32) -> BTreeSet<i64> {
    let Some(checkpoint) = facts.checkpoints.get(&life) else {
        return BTreeSet::new();
    };
    let orders = || {
        checkpoint
            .ledger
            .iter()
            .filter_map(|row| order_of(row).map(|order| (row, order)))
    };
    let settled: BTreeSet<String> = orders()
        .filter(|(row, _)| !is_open(row))
        .flat_map(|(_, (_, markers))| markers)
        .collect();
    // Messages that the original gave up later were not continued there.
    let given_up = facts.given_up();
    let mut waiting = BTreeMap::<i64, u32>::new();
    for pushed in facts
        .pushed
        .iter()
        .filter(|pushed| pushed.life <= life && !settled.contains(pushed.marker))
    {
        *waiting.entry(pushed.chat).or_default() += 1;
    }
    let accepted: BTreeSet<i64> = orders()
        .filter(|(row, _)| is_open(row))
        .map(|(_, (chat, _))| chat)
        .collect();
    for pushed in facts
        .pushed
        .iter()
        .filter(|pushed| given_up.contains(pushed.marker))
    {
        waiting.remove(&pushed.chat);
    }
    waiting
        .into_iter()
        .filter(|(chat, count)| *count == 1 && accepted.contains(chat))
        .map(|(chat, _)| chat)
        .collect()
}

fn difference(first: &Continuation, other: &Continuation, chat: i64) -> Option<String> {
    let name = chat.to_string();
    if first.asked.get(&name) != other.asked.get(&name) {
        return Some(format!(
            "chat {chat}: two copies asked the model different things"
        ));
    }
    if first.sent.get(&name) != other.sent.get(&name) {
        return Some(format!("chat {chat}: two copies sent different messages"));
    }
    let session = |copy: &Continuation| {
        copy.sessions
            .iter()
            .find(|(file, _)| file.contains(&name))
            .map(|(_, steps)| steps.clone())
    };
    (session(first) != session(other))
        .then(|| format!("chat {chat}: the sessions of two copies differ"))
}

/// Reports an effect that happened twice in a copy.
fn repeated(copy: &Continuation) -> Option<String> {
    let mut seen = BTreeSet::new();
    let twice = copy.effects.iter().find(|token| !seen.insert(*token));
    twice.map(|token| format!("{token} ran twice in a copy"))
}
