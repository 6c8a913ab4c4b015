//! Conversations with the demo model: one question, a pipe, and their transcripts.

use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use serde_json::{Value, json};

use crate::support::{Home, assert_says};

#[tokio::test]
async fn demo_model_runs_real_tools() {
    let home = Home::new();
    let run = home
        .run(&["agent", "--demo", "-m", "what files are here?"])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["AGENTS.md", "SOUL.md"]);
    assert_says(&run.stderr, &["Demo model", "↳ list_dir"]);
    let stored = home.read("workspace/sessions/cli_direct.jsonl");
    assert_says(
        &stored,
        &["what files are here?", "\"list_dir\"", "\"role\":\"tool\""],
    );
}

#[tokio::test]
async fn missing_model_starts_the_demo_with_setup_hints() {
    for port in [11434, 1234, 8000, 8080] {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            eprintln!(
                "SKIPPED: something listens on port {port}, where a local model server is looked for"
            );
            return;
        }
    }
    let run = Home::new().run(&["agent", "-m", "hello"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stderr, &["Demo model", "nanobot onboard", "apiKey"]);
    assert!(
        !run.stdout.contains("Demo model:"),
        "notices are not part of the reply: {}",
        run.stdout
    );
}

#[tokio::test]
async fn piped_lines_are_answered_in_order() {
    let home = Home::new();
    let input = b"write a note: buy milk\n\nread notes.md\n/help\nexit\nwhat time is it?\n";
    let run = home
        .run_with_input(&["agent", "--lines", "--demo", "-s", "work"], input)
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(home.read("workspace/notes.md").contains("buy milk"));
    let note = run.stdout.find("buy milk").expect(&run.stdout);
    let help = run.stdout.find("nanobot commands").expect(&run.stdout);
    assert!(note < help, "{}", run.stdout);
    let stored = home.read("workspace/sessions/cli_work.jsonl");
    assert!(
        !stored.contains("what time is it?"),
        "no line after a farewell is sent"
    );
}

#[tokio::test]
async fn new_command_starts_an_empty_session() {
    let home = Home::new();
    let run = home
        .run_with_input(&["agent", "--lines", "--demo"], b"hello\n/new\n/status\n")
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["New session started.", "0 in context"]);
}

#[tokio::test]
async fn conversations_are_listed_shown_and_exported() {
    let home = Home::new();
    assert_says(
        &home.run(&["sessions", "list"]).await.stdout,
        &["No conversations yet"],
    );
    home.run(&["agent", "--demo", "-m", "what files are here?"])
        .await;
    assert_says(
        &home.run(&["sessions", "list"]).await.stdout,
        &["cli:direct", "messages"],
    );

    for name in ["cli:direct", "direct"] {
        let shown = home.run(&["sessions", "show", name]).await;
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        assert_says(
            &shown.stdout,
            &[
                "You ",
                "what files are here?",
                "↳ list_dir",
                "Tool list_dir",
                "AGENTS.md",
            ],
        );
    }

    let exported = home.run(&["sessions", "export", "cli:direct"]).await;
    let lines: Vec<Value> = exported
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["_type"], "metadata");
    assert_eq!(lines[0]["key"], "cli:direct");
    let roles: Vec<&str> = lines[1..]
        .iter()
        .map(|line| line["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert!(lines[1..].iter().all(|line| line["timestamp"].is_string()));

    let arguments = [
        "sessions", "export", "direct", "--format", "md", "-o", "talk.md",
    ];
    assert_eq!(home.run(&arguments).await.code, 0);
    let document = std::fs::read_to_string(home.path().parent().unwrap().join("talk.md")).unwrap();
    assert_says(
        &document,
        &["# cli:direct", "## You", "## nanobot", "## Tool list_dir"],
    );
    let again = home.run(&arguments).await;
    assert_eq!(again.code, 1);
    assert_says(&again.stderr, &["talk.md", "try:"]);

    let unknown = home.run(&["sessions", "show", "cli:nobody"]).await;
    assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""));
    assert_says(&unknown.stderr, &["`cli:nobody`", "nanobot sessions list"]);
}

#[tokio::test]
async fn export_is_a_valid_session_file() {
    let home = Home::new();
    home.run(&["agent", "--demo", "-m", "remember that I like tea"])
        .await;
    let first = home.run(&["sessions", "export", "cli:direct"]).await.stdout;
    let other = Home::new();
    other.write("workspace/sessions/cli_direct.jsonl", &first);
    let second = other
        .run(&["sessions", "export", "cli:direct"])
        .await
        .stdout;
    assert_eq!(
        first.lines().skip(1).collect::<Vec<_>>(),
        second.lines().skip(1).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn conversations_are_forked_and_rewound() {
    let home = Home::new();
    for text in ["what time is it?", "what files are here?"] {
        home.run(&["agent", "--demo", "-m", text]).await;
    }
    let before = home.read("workspace/sessions/cli_direct.jsonl");
    let forked = home.run(&["sessions", "fork", "direct", "--at", "1"]).await;
    assert_eq!(forked.code, 0, "{}", forked.stderr);
    assert_says(&forked.stdout, &["nanobot agent -s 'cli:direct:branch:1'"]);
    assert!(
        !home
            .run(&["sessions", "show", "cli:direct:branch:1"])
            .await
            .stdout
            .contains("what files are here?")
    );
    let whole = home
        .run(&["sessions", "fork", "direct", "--to", "copy"])
        .await;
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert_says(
        &home.run(&["sessions", "show", "copy"]).await.stdout,
        &["1  You ", "what files are here?"],
    );
    let again = home
        .run(&["sessions", "fork", "direct", "--to", "copy"])
        .await;
    assert_eq!(again.code, 1);
    assert_says(&again.stderr, &["cli:copy already", "--to"]);

    let rewound = home
        .run(&["sessions", "rewind", "direct", "--to", "1"])
        .await;
    assert_eq!(rewound.code, 0, "{}", rewound.stderr);
    for command in [
        &["sessions", "show", "direct"],
        &["sessions", "export", "direct"],
    ] {
        let standing = home.run(command).await.stdout;
        assert_says(&standing, &["what time is it?"]);
        assert!(!standing.contains("what files are here?"), "{standing}");
    }
    assert!(
        home.read("workspace/sessions/cli_direct.jsonl")
            .starts_with(&before),
        "nothing is deleted"
    );
    let beyond = home
        .run(&["sessions", "rewind", "direct", "--to", "99"])
        .await;
    assert_eq!(beyond.code, 1);
    assert_says(&beyond.stderr, &["cannot be cut at 99", "sessions show"]);
}

#[tokio::test]
async fn prompt_cache_miss_is_shown_after_a_restart() {
    let home = Home::new();
    home.run(&["agent", "--demo", "-m", "hello"]).await;
    home.write("workspace/memory/MEMORY.md", "# Ann likes tea\n");
    home.run(&["agent", "--demo", "-m", "hello again"]).await;
    let shown = home.run(&["sessions", "show", "direct"]).await.stdout;
    assert!(
        !shown.contains("prompt cache"),
        "the prompt survives a restart after a change of memory: {shown}"
    );

    home.configure(&json!({ "agents": { "defaults": { "botName": "Mika" } } }));
    home.run(&["agent", "--demo", "-m", "and again"]).await;
    let shown = home.run(&["sessions", "show", "direct"]).await.stdout;
    assert_says(
        &shown,
        &[
            "Last break of the prompt cache: identity at byte ",
            ": the settings changed",
        ],
    );
    let told = home
        .run_with_input(&["agent", "--lines", "--demo"], b"/usage\n")
        .await;
    assert_says(&told.stdout, &["the last in identity at byte "]);
}

/// Returns the replies of a turn with text next to its tool call.
fn a_turn_with_a_call() -> [Reply; 2] {
    let call = ScriptedCall::new("list_dir", &json!({"path": "."}));
    [
        Reply::text("Let me look.").and_calls([call]),
        Reply::text("Two files."),
    ]
}

/// Settings, and whether the text and the tool hint are shown with them.
const SHOWN: [(&str, bool, bool); 4] = [
    (r#"{}"#, true, true),
    (
        r#"{"sendProgress": true, "sendToolHints": true}"#,
        true,
        true,
    ),
    (r#"{"sendProgress": false}"#, false, true),
    (
        r#"{"sendProgress": false, "sendToolHints": false}"#,
        false,
        false,
    ),
];

fn home_with(model: &ModelServer, channels: &str) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": serde_json::from_str::<Value>(channels).unwrap(),
    }));
    home
}

#[track_caller]
fn assert_shown(text: &str, case: &str, words: bool, hint: bool) {
    assert_eq!(text.contains("Let me look."), words, "{case}: {text}");
    assert_eq!(text.contains("list_dir"), hint, "{case}: {text}");
}

#[tokio::test]
async fn one_shot_shows_progress_and_hints_as_configured() {
    for (channels, words, hint) in SHOWN {
        let model = ModelServer::scripted(a_turn_with_a_call()).await.unwrap();
        let home = home_with(&model, channels);
        let run = home.run(&["agent", "-m", "look"]).await;
        // Words are printed as they arrive, before it is known that a tool follows.
        let expected = if words {
            "Let me look.\nTwo files.\n"
        } else {
            "Two files.\n"
        };
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (0, expected),
            "{}",
            run.stderr
        );
        assert_shown(&(run.stdout + &run.stderr), channels, words, hint);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn gateway_client_shows_progress_and_hints_as_configured() {
    for (channels, words, hint) in SHOWN {
        let model = ModelServer::scripted(a_turn_with_a_call()).await.unwrap();
        let home = home_with(&model, channels);
        let gateway = crate::gateway::Running::start(&home).await;
        let run = home.run_with_input(&["agent", "--lines"], b"look\n").await;
        // Words are printed as they arrive, before it is known that a tool follows.
        let expected = if words {
            "Let me look.\nTwo files.\n"
        } else {
            "Two files.\n"
        };
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (0, expected),
            "{}",
            run.stderr
        );
        assert_shown(&(run.stdout + &run.stderr), channels, words, hint);
        gateway.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(gateway.end().await.1, Some(0));
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn prompt_shows_progress_and_hints_as_configured() {
    for (channels, words, hint) in SHOWN {
        let model = ModelServer::scripted(a_turn_with_a_call()).await.unwrap();
        let home = home_with(&model, channels);
        let mut screen = crate::prompt::Screen::open(&home, &["agent"]);
        screen.wait_for("You: ");
        screen.type_in("look\r");
        screen.wait_for("Two files.");
        screen.type_in("exit\r");
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        assert_shown(&screen.text, channels, words, hint);
    }
}
