//! The checker: a pure function of the evidence.
//!
//! Decision: each property has a file of its own and evaluates the evidence independently. They
//! share only [`HistoryIndex`], the history grouped by subject.

mod checkpoints;
mod consuming;
mod delivery;
mod effects;
mod forks;
mod prefixes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::evidence::Evidence;
use crate::history::{Continuation, HistoryEvent};
use crate::report::{Property, SuiteFailure, SuiteReport};
use crate::script::{chat_of, marker_of_call, markers};
use crate::system::{Checkpoint, LedgerState, StateRow, System, SystemStep};

/// Checks a round.
#[must_use]
pub fn check(system: &dyn System, evidence: &Evidence) -> SuiteReport {
    let facts = HistoryIndex::of(evidence);
    let mut findings = Findings {
        round: facts.round,
        report: SuiteReport::default(),
    };
    findings.report.tally.kills = facts.kills;
    findings.report.tally.messages = u64::try_from(facts.pushed.len()).unwrap_or(u64::MAX);
    findings.report.tally.requests = u64::try_from(facts.asked.len()).unwrap_or(u64::MAX);
    prefixes::check(&facts, &mut findings);
    effects::check(system, &facts, &mut findings);
    consuming::check(&facts, &mut findings);
    checkpoints::check(&facts, &mut findings);
    forks::check(&facts, &mut findings);
    delivery::check(&facts, &mut findings);
    findings.report
}

/// Collects the results of checks.
struct Findings {
    round: u64,
    report: SuiteReport,
}

impl Findings {
    /// Counts a check, and a failure if there is a problem.
    fn judge(&mut self, property: Property, kill: u32, problem: Option<String>) {
        self.report.count(property);
        self.report
            .failures
            .extend(problem.map(|what| SuiteFailure {
                property,
                round: self.round,
                kill,
                what,
            }));
    }

    /// Counts a check, and a failure unless it holds.
    fn expect(
        &mut self,
        property: Property,
        kill: u32,
        holds: bool,
        what: impl FnOnce() -> String,
    ) {
        self.judge(property, kill, (!holds).then(what));
    }
}

/// A message from a user.
struct PushedMessage<'a> {
    life: u32,
    marker: &'a str,
    chat: i64,
    update: i64,
    text: &'a str,
}

/// A request to the model.
struct AskedMessage<'a> {
    life: u32,
    chat: i64,
    body: &'a str,
}

/// The history, grouped by kind of event.
struct HistoryIndex<'a> {
    round: u64,
    kills: u64,
    pushed: Vec<PushedMessage<'a>>,
    asked: Vec<AskedMessage<'a>>,
    /// Messages received by the platform: life, chat, text.
    sent: Vec<(u32, i64, &'a str)>,
    /// Lines appended by tools.
    effects: Vec<(u32, &'a str)>,
    /// Acknowledged offset at the end of each life.
    acknowledged: BTreeMap<u32, i64>,
    forks: Vec<(u32, &'a [Continuation])>,
    events: &'a [HistoryEvent],
    checkpoints: &'a BTreeMap<u32, Checkpoint>,
    end: Checkpoint,
    /// The number of the last life.
    last_life: u32,
}

impl<'a> HistoryIndex<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        let last_life = evidence
            .checkpoints
            .last_key_value()
            .map_or(0, |(life, _)| *life);
        let mut facts = Self {
            round: 0,
            kills: 0,
            pushed: Vec::new(),
            asked: Vec::new(),
            sent: Vec::new(),
            effects: Vec::new(),
            acknowledged: BTreeMap::new(),
            forks: Vec::new(),
            events: &evidence.events,
            checkpoints: &evidence.checkpoints,
            end: evidence.end(),
            last_life,
        };
        evidence.events.iter().for_each(|event| facts.take(event));
        facts
    }

    fn take(&mut self, event: &'a HistoryEvent) {
        match event {
            HistoryEvent::Round { round, .. } => self.round = *round,
            HistoryEvent::Killed { .. } => self.kills += 1,
            HistoryEvent::Pushed {
                life,
                marker,
                chat,
                update,
                text,
            } => {
                self.pushed.push(PushedMessage {
                    life: *life,
                    marker,
                    chat: *chat,
                    update: *update,
                    text,
                });
            }
            HistoryEvent::Asked { life, chat, body } => self.asked.push(AskedMessage {
                life: *life,
                chat: *chat,
                body,
            }),
            HistoryEvent::Sent { life, chat, text } => self.sent.push((*life, *chat, text)),
            HistoryEvent::Effect { life, token } => self.effects.push((*life, token)),
            HistoryEvent::Acknowledged { life, offset } => {
                self.acknowledged.insert(*life, *offset);
            }
            HistoryEvent::Forked { life, copies } => self.forks.push((*life, copies)),
            HistoryEvent::Span { .. }
            | HistoryEvent::Started { .. }
            | HistoryEvent::Refused { .. }
            | HistoryEvent::Violation { .. }
            | HistoryEvent::Checkpoint { .. }
            | HistoryEvent::Stuck { .. } => {}
        }
    }

    /// Returns the order whose plan contains a call.
    fn order_of_call(&self, call: &str) -> Option<&'a str> {
        let marker = marker_of_call(call)?;
        self.pushed
            .iter()
            .find(|pushed| pushed.marker == marker)
            .map(|pushed| pushed.text)
    }

    /// Returns the markers of messages that were given up for good.
    fn given_up(&self) -> BTreeSet<String> {
        let rows = self
            .end
            .ledger
            .iter()
            .filter(|row| row.inbound && row.standing == LedgerState::Failed);
        rows.flat_map(|row| markers(&row.text)).collect()
    }
}

/// Returns all steps of all sessions.
fn steps(checkpoint: &Checkpoint) -> impl Iterator<Item = &SystemStep> {
    checkpoint.sessions.values().flat_map(|log| &log.steps)
}

fn is_open(row: &StateRow) -> bool {
    matches!(row.standing, LedgerState::Open | LedgerState::Sending)
}

/// Returns the chat and the markers of an inbound row.
fn order_of(row: &StateRow) -> Option<(i64, Vec<String>)> {
    row.inbound
        .then(|| chat_of(&row.text))
        .flatten()
        .map(|chat| (chat, markers(&row.text)))
}

/// Truncates a text for a report.
fn brief(text: &str) -> String {
    const LENGTH: usize = 300;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
