//! A successful round, and one variant for each possible failure: the checker has to detect each of
//! them, and nothing else.

use nanobot_testkit::ScriptedCall;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::SuiteError;
use crate::stage::ON_PAGE;
use crate::system::{Endpoints, SessionLog, ToolAction};

/// A system of which only the interpretation of results is implemented.
#[derive(Debug)]
struct Words;

#[async_trait::async_trait]
impl System for Words {
    fn prepare(&self, _: &Path, _: &Endpoints) -> Result<(), SuiteError> {
        Ok(())
    }

    fn command(&self, _: &Path) -> Command {
        Command::new("true")
    }

    fn is_ready(&self, _: &str) -> bool {
        false
    }

    fn names_owner(&self, _: &str, _: u32) -> bool {
        false
    }

    fn call(&self, _: ToolAction<'_>, token: &str) -> ScriptedCall {
        ScriptedCall::new(token, &serde_json::Value::Null)
    }

    fn is_unknown_outcome(&self, result: &str) -> bool {
        result == "unknown"
    }

    fn is_success(&self, result: &str) -> bool {
        result == "ok"
    }

    fn effects(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }

    fn save(&self, _: &Path, _: &Path) -> Result<(), SuiteError> {
        Ok(())
    }

    async fn load(&self, _: &Path) -> Checkpoint {
        Checkpoint::default()
    }

    fn ledger(&self, _: &Path) -> Vec<StateRow> {
        Vec::new()
    }
}

const CHAT: i64 = 101;
const FILE: &str = "telegram_101.jsonl";
const ORDER: &str = "mark-0001 from 101: follow plan 1";
/// The calls of plan 1: append, fetch, append.
const CALLS: [&str; 3] = ["call-0001-0-0", "call-0001-0-1", "call-0001-0-2"];

fn body(messages: &[&str]) -> String {
    let messages: Vec<_> = messages
        .iter()
        .map(|text| serde_json::json!({"role": "user", "content": text}))
        .collect();
    serde_json::json!({"model": "m", "messages": messages, "tools": []}).to_string()
}

fn row(inbound: bool, text: &str, standing: LedgerState) -> StateRow {
    StateRow {
        inbound,
        name: format!("{inbound} {text}"),
        text: text.to_owned(),
        standing,
    }
}

fn returned(call: &str, text: &str) -> SystemStep {
    SystemStep::Returned {
        call: call.to_owned(),
        text: text.to_owned(),
    }
}

fn log(bytes: &str, steps: Vec<SystemStep>) -> SessionLog {
    SessionLog {
        bytes: bytes.as_bytes().to_vec(),
        steps,
        problem: None,
    }
}

/// A round that was killed while the first of two appends ran; a copy continues like the original.
fn good() -> Evidence {
    let called = SystemStep::Called(CALLS.map(str::to_owned).to_vec());
    let begun = vec![SystemStep::Said(ORDER.to_owned()), called];
    let mut ended = begun.clone();
    ended.extend([
        returned(CALLS[0], "unknown"),
        returned(CALLS[1], ON_PAGE),
        returned(CALLS[2], "unknown"),
    ]);
    ended.extend([
        SystemStep::Answered("done mark-0001".to_owned()),
        SystemStep::Ended(vec!["telegram/101/1".to_owned()]),
    ]);
    let copy = Continuation {
        asked: [(CHAT.to_string(), vec![body(&[ORDER, "results"])])].into(),
        sent: [(CHAT.to_string(), vec!["done mark-0001".to_owned()])].into(),
        sessions: [(FILE.to_owned(), ended.clone())].into(),
        effects: vec![CALLS[0].to_owned()],
        stuck: None,
    };
    let asked = |life, body| HistoryEvent::Asked {
        life,
        chat: CHAT,
        body,
    };
    let events = vec![
        HistoryEvent::Round { seed: 1, round: 4 },
        HistoryEvent::Started {
            life: 0,
            racers: 1,
            owners: vec![10],
        },
        HistoryEvent::Pushed {
            life: 0,
            marker: "mark-0001".to_owned(),
            chat: CHAT,
            update: 7,
            text: ORDER.to_owned(),
        },
        asked(0, body(&[ORDER])),
        HistoryEvent::Killed { life: 0, micros: 5 },
        HistoryEvent::Effect {
            life: 0,
            token: CALLS[0].to_owned(),
        },
        HistoryEvent::Acknowledged { life: 0, offset: 8 },
        HistoryEvent::Forked {
            life: 0,
            copies: vec![copy.clone(), copy],
        },
        HistoryEvent::Started {
            life: 1,
            racers: 3,
            owners: vec![11],
        },
        HistoryEvent::Refused {
            life: 1,
            code: Some(1),
            names_owner: true,
            said: "11 has it".to_owned(),
        },
        asked(1, body(&[ORDER, "results"])),
        HistoryEvent::Killed { life: 1, micros: 5 },
        HistoryEvent::Sent {
            life: 1,
            chat: CHAT,
            text: "done mark-0001".to_owned(),
        },
        HistoryEvent::Acknowledged { life: 1, offset: 8 },
    ];
    let first = Checkpoint {
        sessions: [(FILE.to_owned(), log("a\nb\n", begun))].into(),
        ledger: vec![row(true, ORDER, LedgerState::Open)],
        problem: None,
    };
    let second = Checkpoint {
        sessions: [(FILE.to_owned(), log("a\nb\nc\n", ended))].into(),
        ledger: vec![
            row(true, ORDER, LedgerState::Done),
            row(false, "done mark-0001", LedgerState::Done),
        ],
        problem: None,
    };
    Evidence {
        events,
        checkpoints: [(0, first), (1, second)].into(),
    }
}

type Change = fn(&mut Evidence);

fn checkpoint(evidence: &mut Evidence, life: u32) -> &mut Checkpoint {
    evidence.checkpoints.get_mut(&life).unwrap()
}

fn session(evidence: &mut Evidence, life: u32) -> &mut SessionLog {
    checkpoint(evidence, life).sessions.get_mut(FILE).unwrap()
}

fn copy(evidence: &mut Evidence) -> &mut Continuation {
    let copies = evidence.events.iter_mut().find_map(|event| match event {
        HistoryEvent::Forked { copies, .. } => copies.last_mut(),
        _ => None,
    });
    copies.unwrap()
}

fn set_result(evidence: &mut Evidence, call: &str, text: &str) {
    for step in &mut session(evidence, 1).steps {
        if *step == returned(call, "unknown") {
            *step = returned(call, text);
        }
    }
}

fn add(evidence: &mut Evidence, event: HistoryEvent) {
    evidence.events.push(event);
}

/// A change, the property that it breaks, and words of the failure.
const WRONG: [(Change, Property, &str); 26] = [
    (
        |e| session(e, 1).bytes = b"a\nB\nc\n".to_vec(),
        Property::PrefixContinuation,
        "does not begin as it was",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Asked {
                    life: 1,
                    chat: CHAT,
                    body: body(&["another", "results", "more"]),
                },
            );
        },
        Property::PrefixContinuation,
        "element 0 of the request",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Asked {
                    life: 1,
                    chat: CHAT,
                    body: body(&[ORDER]),
                },
            );
        },
        Property::PrefixContinuation,
        "element 1 of the request",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Effect {
                    life: 1,
                    token: CALLS[0].to_owned(),
                },
            );
        },
        Property::EffectOnce,
        "ran 2 times",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Effect {
                    life: 0,
                    token: "call-0009-0-0".to_owned(),
                },
            );
        },
        Property::EffectOnce,
        "before its call",
    ),
    (
        |e| set_result(e, CALLS[0], "ok"),
        Property::EffectOnce,
        "went on silently",
    ),
    (
        |e| {
            session(e, 0).steps.push(returned(CALLS[0], "ok"));
            set_result(e, CALLS[0], "failed");
        },
        Property::EffectOnce,
        "its result is failed",
    ),
    (
        |e| session(e, 0).steps.push(returned(CALLS[2], "ok")),
        Property::EffectOnce,
        "call-0001-0-2 is said to be unknown, but nothing interrupted it",
    ),
    (
        |e| session(e, 1).steps[3] = returned(CALLS[1], "not there"),
        Property::EffectOnce,
        "call-0001-0-1 did not read the page: not there",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Started {
                    life: 1,
                    racers: 3,
                    owners: vec![1, 2],
                },
            );
        },
        Property::ConsumeOnce,
        "2 of 3 processes own the home",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Started {
                    life: 1,
                    racers: 2,
                    owners: vec![1],
                },
            );
            add(
                e,
                HistoryEvent::Refused {
                    life: 1,
                    code: Some(1),
                    names_owner: false,
                    said: "no".to_owned(),
                },
            );
        },
        Property::ConsumeOnce,
        "was refused with code Some(1)",
    ),
    (
        |e| {
            session(e, 1)
                .steps
                .push(SystemStep::Ended(vec!["telegram/101/1".to_owned()]));
        },
        Property::ConsumeOnce,
        "ended 2 times",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Asked {
                    life: 1,
                    chat: CHAT,
                    body: body(&[ORDER, "results"]),
                },
            );
        },
        Property::ConsumeOnce,
        "the same request twice",
    ),
    (
        |e| checkpoint(e, 0).problem = Some("bad page".to_owned()),
        Property::CheckpointValidity,
        "bad page",
    ),
    (
        |e| session(e, 0).problem = Some("torn".to_owned()),
        Property::CheckpointValidity,
        "torn",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Violation {
                    life: 1,
                    what: "no result".to_owned(),
                },
            );
        },
        Property::CheckpointValidity,
        "no result",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Started {
                    life: 1,
                    racers: 1,
                    owners: Vec::new(),
                },
            );
            add(
                e,
                HistoryEvent::Refused {
                    life: 1,
                    code: Some(1),
                    names_owner: false,
                    said: "damaged".to_owned(),
                },
            );
        },
        Property::CheckpointValidity,
        "nothing starts on what is on disk",
    ),
    (
        |e| {
            session(e, 0)
                .steps
                .push(SystemStep::Answered("done".to_owned()));
        },
        Property::CheckpointValidity,
        "have no result, and the turn went on",
    ),
    (
        |e| {
            copy(e)
                .asked
                .insert(CHAT.to_string(), vec![body(&[ORDER, "other"])])
                .unwrap_or_default()
                .clear();
        },
        Property::RecoveryDeterminism,
        "the next requests of two copies differ",
    ),
    (
        |e| copy(e).sent.clear(),
        Property::ForkDeterminism,
        "two copies sent different messages",
    ),
    (
        |e| copy(e).effects.push(CALLS[0].to_owned()),
        Property::ForkDeterminism,
        "ran twice in a copy",
    ),
    (
        |e| copy(e).stuck = Some("busy".to_owned()),
        Property::ForkDeterminism,
        "does not come to rest",
    ),
    (
        |e| checkpoint(e, 0).ledger.clear(),
        Property::NothingLost,
        "was acknowledged and is not in the ledger",
    ),
    (
        |e| {
            session(e, 1)
                .steps
                .insert(1, SystemStep::Said(ORDER.to_owned()));
        },
        Property::NothingLost,
        "is 2 times in its session",
    ),
    (
        |e| {
            e.events
                .retain(|event| !matches!(event, HistoryEvent::Sent { .. }));
        },
        Property::NothingLost,
        "was not answered, and nothing says why",
    ),
    (
        |e| {
            add(
                e,
                HistoryEvent::Sent {
                    life: 1,
                    chat: CHAT,
                    text: "done mark-0001".to_owned(),
                },
            );
        },
        Property::NothingLost,
        "was sent twice to 101",
    ),
];

#[test]
fn good_round_is_clean_and_checks_every_property() {
    let report = check(&Words, &good());
    assert_eq!(report.failures, []);
    for property in Property::ALL {
        assert!(report.checked(property) > 0, "{property}");
    }
    let tally = report.tally;
    assert_eq!(
        (
            tally.kills,
            tally.messages,
            tally.requests,
            tally.unknown_outcomes
        ),
        (2, 1, 2, 2)
    );
}

#[test]
fn every_fault_is_detected() {
    for (change, property, words) in WRONG {
        let mut evidence = good();
        change(&mut evidence);
        let report = check(&Words, &evidence);
        let seen = report
            .failures_of(property)
            .any(|failure| failure.what.contains(words) && failure.round == 4);
        assert!(seen, "{property}: {words}: {:?}", report.failures);
    }
}

#[test]
fn uncertainty_after_a_kill_is_counted_and_not_a_failure() {
    let mut evidence = good();
    evidence
        .events
        .retain(|event| !matches!(event, HistoryEvent::Sent { .. }));
    checkpoint(&mut evidence, 0)
        .ledger
        .push(row(false, "done mark-0001", LedgerState::Sending));
    checkpoint(&mut evidence, 1).ledger[1].standing = LedgerState::Uncertain;
    let report = check(&Words, &evidence);
    assert_eq!(report.failures, []);
    assert_eq!((report.tally.uncertain, report.tally.kills_in_send), (1, 1));
    checkpoint(&mut evidence, 0).ledger.pop();
    let report = check(&Words, &evidence);
    assert!(
        report
            .failures
            .iter()
            .any(|failure| failure.what.contains("no kill interrupted its send"))
    );
}

#[test]
fn duplicate_of_an_interrupted_send_is_counted() {
    let mut evidence = good();
    let sent = HistoryEvent::Sent {
        life: 0,
        chat: CHAT,
        text: "done mark-0001".to_owned(),
    };
    evidence.events.insert(5, sent);
    checkpoint(&mut evidence, 0)
        .ledger
        .push(row(false, "done mark-0001", LedgerState::Sending));
    let report = check(&Words, &evidence);
    assert_eq!(report.failures, []);
    assert_eq!(report.tally.duplicates, 1);
}

#[test]
fn given_up_message_is_counted() {
    let mut evidence = good();
    evidence.events.retain(|event| {
        !matches!(
            event,
            HistoryEvent::Sent { .. } | HistoryEvent::Forked { .. }
        )
    });
    let end = checkpoint(&mut evidence, 1);
    end.ledger = vec![row(true, ORDER, LedgerState::Failed)];
    end.sessions.get_mut(FILE).unwrap().steps.truncate(2);
    let report = check(&Words, &evidence);
    assert_eq!(report.failures, []);
    assert_eq!(report.tally.given_up, 1);
}
