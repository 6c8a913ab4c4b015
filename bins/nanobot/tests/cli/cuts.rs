//! Conversations forked and rewound beside a gateway, and durability as it reaches the program.

use std::process::Stdio;

use nanobot_testkit::{Gate, ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::Running;
use crate::support::{DEADLINE, Home, assert_says, until};

#[tokio::test]
async fn a_gateway_cuts_its_conversations_itself_and_not_under_a_turn() {
    let gate = Gate::new();
    let held = Reply::text("Third.").after(&gate);
    let model = ModelServer::scripted([Reply::text("First."), Reply::text("Second."), held]).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    for question in ["one?", "two?"] {
        assert_eq!(home.run(&["agent", "-m", question]).await.code, 0);
    }
    let copied = home.run(&["sessions", "fork", "direct", "--at", "2", "--to", "copy"]).await;
    assert_eq!(copied.code, 0, "{}", copied.stderr);
    assert_says(&copied.stdout, &["Copied to cli:copy."]);
    let again = home.run(&["sessions", "fork", "direct", "--to", "copy"]).await;
    assert_says(&again.stderr, &["there is a conversation cli:copy already", "--to"]);

    let (asked, ()) = tokio::join!(home.run(&["agent", "-m", "three?"]), async {
        model.wait_for(3).await.unwrap();
        let refused = home.run(&["sessions", "rewind", "direct", "--to", "2"]).await;
        assert_eq!(refused.code, 1, "{}", refused.stdout);
        assert_says(&refused.stderr, &["a turn is at work in cli:direct", "/stop"]);
        let copied = home.run(&["sessions", "fork", "direct"]).await;
        assert_says(&copied.stdout, &["Copied to cli:direct:branch:1."]);
        gate.open();
    });
    assert_eq!((asked.code, asked.stdout.as_str()), (0, "Third.\n"), "{}", asked.stderr);
    until("nothing is at work there", async || {
        home.run(&["sessions", "rewind", "direct", "--to", "2"]).await.code == 0
    })
    .await;
    let far = home.run(&["sessions", "rewind", "direct", "--to", "99"]).await;
    assert_says(&far.stderr, &["cannot be cut at 99", "sessions show"]);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    assert_eq!(session.matches("rewound").count(), 1, "{session}");
    // The same without it, on the files.
    let copied = home.run(&["sessions", "fork", "direct", "--to", "other"]).await;
    assert_says(&copied.stdout, &["Copied to cli:other."]);
}

/// Syncs of session files while a question is answered in a session that exists, as `strace` sees
/// them; `None` where it is missing or may not trace.
#[cfg(target_os = "linux")]
async fn syncs_of_a_turn(durability: &str) -> Option<usize> {
    let model = ModelServer::answering(|_| Reply::text("ok")).await.unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "sessions": {"durability": durability},
    }));
    assert_eq!(home.run(&["agent", "-m", "first"]).await.code, 0);
    let trace = home.path().join("trace");
    let mut command = home.of("strace".as_ref());
    command.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&trace);
    command.arg(env!("CARGO_BIN_EXE_nanobot")).args(["agent", "-m", "second"]);
    // The model is served by this very thread, so nothing may block it.
    let mut command = tokio::process::Command::from(command);
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = tokio::time::timeout(DEADLINE, running).await.expect("the program ends in time");
    if !ended.is_ok_and(|ended| ended.status.success()) {
        return None;
    }
    let traced = std::fs::read_to_string(&trace).unwrap();
    Some(traced.lines().filter(|line| line.contains("cli_direct.jsonl")).count())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn durability_os_reaches_the_sessions_of_the_program() {
    match (syncs_of_a_turn("disk").await, syncs_of_a_turn("os").await) {
        (Some(disk), Some(os)) => {
            assert!(disk >= 2, "the question and its answer are synced: {disk}");
            assert_eq!(os, 0, "nothing waits for the disk");
        }
        _ => eprintln!("SKIPPED: strace is not there or may not trace, so nobody can count the syncs of the program"),
    }
}
