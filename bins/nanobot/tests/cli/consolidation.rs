//! A single run in a conversation that was never summarised.

use std::fmt::Write as _;

use nanobot_testkit::{ModelServer, Reply};

use crate::support::{Home, until};

#[tokio::test]
async fn pending_summary_of_a_one_shot_is_made_by_the_gateway() {
    // The reply to the question; a request for a summary would get none.
    let model = ModelServer::scripted([Reply::text("Here I am.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
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

    // A gateway starts, and no message arrives.
    let mut gateway = home.program();
    gateway
        .args(["gateway", "--port", "0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut gateway = gateway.spawn().unwrap();
    let summary = serde_json::json!({"history_entry": "[2026-03-01 10:00] words were said", "memory_update": "- words"});
    for _ in 0..4 {
        model.push(Reply::call("save_memory", &summary));
    }
    until("the gateway summarises", async || {
        model.requests().len() > 3
    })
    .await;
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    assert!(
        home.read("workspace/memory/HISTORY.md")
            .contains("words were said")
    );
}
