//! A single run in a conversation that was never summarised.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nanobot_testkit::{ModelServer, Reply};

use crate::support::{Home, assert_says, until};

/// Writes a conversation of 20,000 messages that was never summarised.
fn write_long_session(home: &Home) {
    let mut session = String::from(
        "{\"_type\": \"metadata\", \"key\": \"cli:direct\", \"created_at\": \"2026-03-01T10:00:00.000000\", \
         \"updated_at\": \"2026-03-01T10:00:05.000000\", \"metadata\": {}, \"last_consolidated\": 0}\n",
    );
    for number in 0..20_000 {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let words = "some words that were said ".repeat(20);
        let at = "2026-03-01T10:00:00.000000";
        let line = format!(
            "{{\"role\": \"{role}\", \"content\": \"{number} {words}\", \"timestamp\": \"{at}\"}}"
        );
        writeln!(session, "{line}").unwrap();
    }
    home.write("workspace/sessions/cli_direct.jsonl", &session);
}

/// Returns the answer to the request for a summary.
fn summary() -> Reply {
    let summary = serde_json::json!({
        "history_entry": "[2026-03-01 10:00] words were said",
        "memory_update": "- words",
    });
    Reply::call("save_memory", &summary)
}

#[tokio::test]
async fn backlog_is_summarised_by_the_gateway_after_consent() {
    // Summaries are answered only once the gateway runs.
    let gateway_runs = Arc::new(AtomicBool::new(false));
    let is_answered = gateway_runs.clone();
    let model = ModelServer::answering(move |request| {
        if !request.tool_names().contains(&"save_memory") {
            return Reply::text("Here I am.");
        }
        if !is_answered.load(Ordering::SeqCst) {
            return Reply::hang();
        }
        summary()
    })
    .await
    .unwrap();
    let home = Home::with_model(&model.base_url());
    write_long_session(&home);
    let run = home.run(&["agent", "-m", "Are you there?"]).await;
    assert_eq!(
        (run.code, run.stdout.trim()),
        (0, "Here I am."),
        "{}",
        run.stderr
    );
    assert_eq!(model.requests().len(), 1, "only the question was asked");
    let stored = home.read("workspace/sessions/cli_direct.jsonl");
    assert!(
        stored.contains("\"_consolidation\":{\"chunks\":[{"),
        "the pending summary is recorded"
    );
    assert_says(
        &run.stderr,
        &[
            "older messages of this conversation were never summarised",
            "/summarize",
        ],
    );
    let consent = home.run(&["agent", "-m", "/summarize"]).await;
    assert_says(&consent.stdout, &["Summarising ", "/summarize stop"]);

    // A gateway starts, and no message arrives.
    gateway_runs.store(true, Ordering::SeqCst);
    let mut gateway = home.program();
    gateway
        .args(["gateway", "--port", "0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut gateway = gateway.spawn().unwrap();
    until("the gateway summarises", async || {
        home.read("workspace/memory/HISTORY.md")
            .contains("words were said")
    })
    .await;
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

#[tokio::test]
async fn running_gateway_repeats_the_question_and_starts_after_consent() {
    let model = ModelServer::answering(|request| {
        if !request.tool_names().contains(&"save_memory") {
            return Reply::text("Here I am.");
        }
        summary()
    })
    .await
    .unwrap();
    let home = Home::with_model(&model.base_url());
    write_long_session(&home);
    let gateway = crate::gateway::Running::start(&home).await;
    let question = "older messages of this conversation were never summarised";
    let run = home.run(&["agent", "-m", "Are you there?"]).await;
    assert_eq!(run.stdout.trim(), "Here I am.", "{}", run.stderr);
    until("the question is recorded", async || {
        home.read("workspace/sessions/cli_direct.jsonl")
            .contains("\"consent\":\"awaited\"")
    })
    .await;
    // The first program may have ended before the question.
    let run = home.run(&["agent", "-m", "And now?"]).await;
    assert_says(&run.stderr, &[question, "/summarize"]);
    let status = home.run(&["agent", "-m", "/status"]).await;
    assert_says(&status.stdout, &["older messages are not summarised"]);
    let consent = home.run(&["agent", "-m", "/summarize"]).await;
    assert_says(&consent.stdout, &["Summarising "]);
    until("the gateway summarises", async || {
        home.read("workspace/memory/HISTORY.md")
            .contains("words were said")
    })
    .await;
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Messages that wait for consent are found without a conversation, and in a list of any length.
#[tokio::test]
async fn status_and_doctor_name_messages_that_wait() {
    let home = Home::new();
    let quiet = home.run(&["status"]).await;
    assert!(!quiet.stdout.contains("Not summarised"), "{}", quiet.stdout);
    for number in 1..=30 {
        let messages = number * 100;
        let chunk = serde_json::json!({
            "from": 0, "upto": messages, "left": true, "consent": "awaited",
            "cost": {"messages": messages, "requests": number, "tokens": number * 1_000},
        });
        let line = serde_json::json!({
            "_type": "metadata", "key": format!("telegram:{number}"), "last_consolidated": messages,
            "created_at": "2026-03-01T10:00:00.000000", "updated_at": "2026-03-01T10:00:05.000000",
            "metadata": {"_consolidation": {"chunks": [chunk]}},
        });
        home.write(
            &format!("workspace/sessions/telegram_{number}.jsonl"),
            &format!("{line}\n"),
        );
    }
    let parts = [
        "46500 older messages of 30 sessions wait for consent (about 465 requests with 465000 tokens)",
        "telegram:30: 3000 messages, about 30 requests with 30000 tokens",
        "and 25 more sessions",
        "`nanobot agent -s 'telegram:30' -m /summarize`",
    ];
    for command in ["status", "doctor"] {
        let run = home.run(&[command]).await;
        assert_says(&run.stdout, &parts);
        assert_eq!(run.stdout.matches("telegram:").count(), 6, "{}", run.stdout);
    }
    let run = home.run(&["status", "--json"]).await;
    let status: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let backlogs = &status["backlogs"];
    assert_eq!(backlogs["sessions"], 30);
    assert_eq!(backlogs["messages"], 46_500);
    assert_eq!(backlogs["largest"].as_array().unwrap().len(), 5);
    assert_eq!(backlogs["largest"][0]["session"], "telegram:30");
}

#[tokio::test]
async fn summary_that_fails_is_a_failed_command() {
    // The model never calls the tool for summaries.
    let model = ModelServer::answering(|_| Reply::text("Noted."));
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let lines = "a message\n".repeat(6) + "/compact\n";
    let run = home
        .run_with_input(&["agent", "--lines"], lines.as_bytes())
        .await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &["could not be summarised", "Nothing was changed."],
    );
}
