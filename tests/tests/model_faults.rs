//! Faulty model answers, end to end: each row of the corpus is served byte for byte to the real
//! client of an agent with the built-in tools. The test checks what is recorded on disk and what
//! the user sees.
//!
//! The clients' own tests run the same rows up to the router. This file checks what only a turn can
//! show: the tools that ran, the records, the reply, and that the next request is valid.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nanobot_agent_core::TurnReport;
use nanobot_provider::RetryPolicy;
use nanobot_session::TurnOutcome;
use nanobot_testkit::corpus::{CorpusRow, rows};
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::world::{KEY, UserTurn, World, run_turn, vendor};

const SESSION: &str = "telegram:1";
/// The model's answer once it works again.
const RECOVERED: &str = "recovered";
const NOTES: &str = "buy milk";

/// Words of `must` that are checked by another test, and that test.
const CHECKED_ELSEWHERE: &[(&str, &str)] = &[
    (
        "memory_below_64MB",
        "the line is refused at its bound by the client: corpus test of nanobot-providers",
    ),
    (
        "backoff",
        "pauses between tries on a paused clock: router tests of nanobot-provider",
    ),
];

/// A turn in which the row was served, and the next turn.
struct Played {
    world: World,
    report: TurnReport,
    /// Requests of the first turn.
    requests: Vec<ModelRequest>,
    took: Duration,
    /// The user's reply in the second turn, in which the model works.
    next: Option<String>,
    violations: Vec<String>,
}

/// Number of times that the row is served in the first turn.
#[derive(Clone, Copy, Debug)]
enum Served {
    Always,
    Once,
}

impl Played {
    /// Plays both turns. The replies of `prelude` are served before the row.
    async fn new(row: &CorpusRow, served: Served, prelude: Vec<Reply>) -> Self {
        let world = world_for(row);
        let left = Arc::new(AtomicUsize::new(match served {
            Served::Always => usize::MAX,
            Served::Once => 1,
        }));
        let (fault, faults) = (Reply::corpus(row).unwrap(), Arc::clone(&left));
        let server = ModelServer::answering(move |_| {
            let is_left = faults
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_ok();
            if is_left {
                fault.clone()
            } else {
                Reply::text(RECOVERED)
            }
        });
        let server = server.await.unwrap();
        prelude.into_iter().for_each(|reply| server.push(reply));
        let agent = world.agent([vendor("custom", &server)]);
        let begun = Instant::now();
        let report = run_turn(&agent, SESSION, UserTurn::text("what is in my notes?"))
            .await
            .unwrap();
        let (requests, took) = (server.requests(), begun.elapsed());
        left.store(0, Ordering::SeqCst);
        let next = run_turn(&agent, SESSION, UserTurn::text("and now?"))
            .await
            .unwrap()
            .visible;
        Self {
            world,
            report,
            requests,
            took,
            next,
            violations: server.violations(),
        }
    }

    fn visible(&self) -> &str {
        self.report.visible.as_deref().unwrap_or_default()
    }

    /// Returns `true` if the turn ended with an explanation.
    fn is_explained(&self) -> bool {
        self.report.ended == TurnOutcome::Failed && !self.visible().trim().is_empty()
    }

    fn is_recovered(&self) -> bool {
        self.report.ended == TurnOutcome::Replied && self.visible() == RECOVERED
    }

    /// Returns the tool results as the model read them.
    fn results(&self) -> Vec<String> {
        self.requests
            .last()
            .map(ModelRequest::tool_results)
            .unwrap_or_default()
    }

    /// Returns the ids of the calls in the last request, and those of the results after them.
    fn ids(&self) -> (Vec<String>, Vec<String>) {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for message in self
            .requests
            .last()
            .map(ModelRequest::messages)
            .unwrap_or_default()
        {
            let called = message["tool_calls"].as_array().into_iter().flatten();
            calls.extend(called.map(|call| call["id"].as_str().unwrap_or_default().to_owned()));
            results.extend(message["tool_call_id"].as_str().map(str::to_owned));
        }
        (calls, results)
    }

    /// Returns the messages in the session's file.
    fn stored(&self) -> Vec<Value> {
        let text =
            std::fs::read_to_string(self.world.workspace().join("sessions/telegram_1.jsonl"))
                .unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get("role").is_some()).collect()
    }
}

fn world_for(row: &CorpusRow) -> World {
    let mut world = World::new();
    world.write("notes.txt", format!("{NOTES}\n"));
    world.write("long.txt", "a line of a long file\n".repeat(400));
    world.policy = RetryPolicy {
        pauses: vec![Duration::from_millis(1); 2],
        longest_pause: Duration::from_secs(5),
        idle: Duration::from_secs(20),
        total: Duration::from_secs(60),
        ..RetryPolicy::default()
    };
    match row.outcome() {
        // One attempt is enough to see that a line of 10 MB is refused.
        "error_bounded" => world.policy.pauses.clear(),
        "timeout_then_retry" => world.policy.idle = Duration::from_secs(5),
        _ => {}
    }
    world
}

/// Plays the turns that a row is checked by.
async fn play(row: &CorpusRow) -> Vec<Played> {
    let plays: &[Served] = match row.outcome() {
        "tool_error_to_model" | "ok_run" | "ok" | "ok_or_retry" | "partial" | "retry" => {
            &[Served::Once]
        }
        "error_to_user" | "error_bounded" => &[Served::Always],
        _ => &[Served::Always, Served::Once],
    };
    let mut played = Vec::new();
    for served in plays {
        let long = || Reply::call("read_file", &json!({"path": "long.txt", "limit": 300}));
        // If the row needs it, a long message that compaction can drop.
        let prelude = if row.outcome() == "compact_and_retry_once" {
            vec![long(), long(), note(), note(), note(), note()]
        } else {
            Vec::new()
        };
        played.push(Played::new(row, *served, prelude).await);
    }
    played
}

fn note() -> Reply {
    Reply::call("read_file", &json!({"path": "notes.txt"}))
}

/// Checks the `outcome` of a row. The first turn is also checked by the words.
fn has_outcome(row: &CorpusRow, played: &[Played]) -> bool {
    let first = &played[0];
    let requests = first.requests.len();
    let is_recovered_later = || played.get(1).is_none_or(Played::is_recovered);
    match row.outcome() {
        "tool_error_to_model" => {
            let results = first.results();
            first.is_recovered()
                && requests == 2
                && !results.is_empty()
                && results.iter().all(|text| text.starts_with("Error"))
        }
        "ok_run" => {
            first.is_recovered()
                && requests == 2
                && first.results()[0].contains(NOTES)
                && first.world.runs.of("read_file") == 1
        }
        "ok" => first.report.ended == TurnOutcome::Replied && requests == 1,
        "ok_or_retry" => first.report.ended == TurnOutcome::Replied && !first.visible().is_empty(),
        "partial" => {
            first.report.ended == TurnOutcome::Replied
                && requests == 1
                && first.visible().starts_with("half an ans")
        }
        "error_to_user" | "error_bounded" => first.is_explained() && requests == 1,
        "retry" => first.is_recovered() && requests == 2,
        "retry_then_error" | "treated_as_stop" | "retry_or_error" => {
            first.is_explained() && requests > 1 && is_recovered_later()
        }
        // If the user has seen part of the answer, it is not started again.
        "retry_or_partial" | "timeout_then_retry" => {
            first.is_explained()
                && played
                    .iter()
                    .skip(1)
                    .all(|once| once.is_explained() || once.is_recovered())
        }
        "compact_and_retry_once" => {
            let sizes: Vec<usize> = first
                .requests
                .iter()
                .map(|request| request.http.body.len())
                .collect();
            first.is_explained() && sizes.len() == 8 && sizes[7] < sizes[6] && is_recovered_later()
        }
        other => panic!("{}: unknown outcome {other:?}", row.id),
    }
}

/// Returns `true` if the turn satisfies one of the row's words.
fn satisfies(word: &str, played: &Played) -> bool {
    let (calls, results) = played.ids();
    match word {
        // Implied by getting here, and by the outcome.
        "no_panic" | "no_loop" => true,
        "tool_not_run" => played.world.runs.total() == 0,
        "one_result_per_call" => !calls.is_empty() && calls == results,
        "id_made_up" | "ids_made_distinct" => {
            calls.iter().collect::<BTreeSet<_>>().len() == calls.len()
                && !calls.iter().any(String::is_empty)
        }
        "request_valid_next" => played.violations.is_empty(),
        "error_names_parameter" => played.results()[0].contains("path"),
        "error_lists_tools" => ["read_file", "exec", "message"]
            .iter()
            .all(|tool| played.results()[0].contains(tool)),
        "no_phantom_tool_result" => {
            results.is_empty()
                && played
                    .stored()
                    .iter()
                    .all(|message| message["role"] != "tool")
        }
        "user_told" | "no_empty_message_sent" => !played.visible().trim().is_empty(),
        "user_told_cut" => played.visible().contains("cut at the token limit"),
        "stored_with_flag" => played
            .stored()
            .iter()
            .any(|message| message["_finish"] == "length"),
        "not_retried" => played.requests.len() == 1,
        "retry_after_honoured" => played.took >= Duration::from_secs(2),
        "html_not_shown_to_user" => !played.visible().contains('<'),
        "not_accepted_as_complete" => {
            played.report.ended != TurnOutcome::Replied || played.is_recovered()
        }
        "bad_frame_reported" => played.visible().contains("not JSON"),
        "idle_timeout" => played.visible().contains("no answer for"),
        // Checked for every row.
        "key_not_shown" => true,
        _ if word.starts_with("text_is_") => {
            played.visible() == word.trim_start_matches("text_is_")
        }
        _ => CHECKED_ELSEWHERE
            .iter()
            .any(|(elsewhere, _)| *elsewhere == word),
    }
}

/// Checks the properties of every turn, whatever the model does.
fn check_invariants(played: &Played) -> Result<(), String> {
    let stored = played.stored();
    let shows_key = [played.visible().to_owned(), format!("{stored:?}")]
        .iter()
        .any(|text| text.contains(KEY));
    for (promise, holds) in [
        ("the key is shown to nobody", !shows_key),
        ("every request is valid", played.violations.is_empty()),
        (
            "the next turn is answered",
            played.next.as_deref() == Some(RECOVERED),
        ),
    ] {
        if !holds {
            return Err(format!(
                "{promise}: {:?} {:?}",
                played.violations, played.next
            ));
        }
    }
    Ok(())
}

async fn check(row: &CorpusRow) -> Result<(), String> {
    let played = play(row).await;
    let seen: Vec<String> = played
        .iter()
        .map(|turn| {
            format!(
                "{} requests, {:?}, results {:?}",
                turn.requests.len(),
                turn.report,
                turn.results()
            )
        })
        .collect();
    if !has_outcome(row, &played) {
        return Err(format!("not {}: {seen:#?}", row.outcome()));
    }
    if let Some(word) = row
        .must()
        .into_iter()
        .find(|word| !satisfies(word, &played[0]))
    {
        return Err(format!("not {word}: {seen:#?}"));
    }
    played.iter().try_for_each(check_invariants)
}

#[tokio::test]
async fn every_model_fault_ends_as_expected() {
    let rows = rows("llm_responses").unwrap();
    for (word, _) in CHECKED_ELSEWHERE {
        assert!(
            rows.iter().any(|row| row.must().contains(word)),
            "no row says {word} any more"
        );
    }
    let mut failed = Vec::new();
    for row in &rows {
        if let Err(why) = check(row).await {
            failed.push(format!("{}: {why}", row.id));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
