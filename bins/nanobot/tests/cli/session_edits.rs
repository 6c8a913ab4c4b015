//! Conversations that are forked and rewound next to a gateway, and the durability setting end to
//! end.

use std::process::Stdio;

#[cfg(target_os = "linux")]
use nanobot_channel_telegram_fake::{FileKind, Incoming, Person, TOKEN, TelegramFake};
#[cfg(target_os = "linux")]
use nanobot_testkit::{Gate, ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::json;
#[cfg(target_os = "linux")]
use tokio::process::Command;

use crate::gateway::Running;
use crate::prompt::Screen;
use crate::support::{DEADLINE, Home, assert_says, until};

#[tokio::test]
async fn gateway_forks_and_rewinds_only_idle_sessions() {
    let gate = Gate::new();
    let held = Reply::text("Third.").after(&gate);
    let model = ModelServer::scripted([Reply::text("First."), Reply::text("Second."), held])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    for question in ["one?", "two?"] {
        assert_eq!(home.run(&["agent", "-m", question]).await.code, 0);
    }
    let copied = home
        .run(&["sessions", "fork", "direct", "--at", "2", "--to", "copy"])
        .await;
    assert_eq!(copied.code, 0, "{}", copied.stderr);
    assert_says(&copied.stdout, &["Copied to cli:copy."]);
    let again = home
        .run(&["sessions", "fork", "direct", "--to", "copy"])
        .await;
    assert_says(
        &again.stderr,
        &["there is a conversation cli:copy already", "--to"],
    );

    let (asked, ()) = tokio::join!(home.run(&["agent", "-m", "three?"]), async {
        model.wait_for(3).await.unwrap();
        let refused = home
            .run(&["sessions", "rewind", "direct", "--to", "2"])
            .await;
        assert_eq!(refused.code, 1, "{}", refused.stdout);
        assert_says(
            &refused.stderr,
            &["a turn is at work in cli:direct", "/stop"],
        );
        let copied = home.run(&["sessions", "fork", "direct"]).await;
        assert_says(&copied.stdout, &["Copied to cli:direct:branch:1."]);
        gate.open();
    });
    assert_eq!(
        (asked.code, asked.stdout.as_str()),
        (0, "Third.\n"),
        "{}",
        asked.stderr
    );
    until("nothing is at work there", async || {
        home.run(&["sessions", "rewind", "direct", "--to", "2"])
            .await
            .code
            == 0
    })
    .await;
    let far = home
        .run(&["sessions", "rewind", "direct", "--to", "99"])
        .await;
    assert_says(&far.stderr, &["cannot be cut at 99", "sessions show"]);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    assert_eq!(session.matches("rewound").count(), 1, "{session}");
    // The same without a gateway, on the files.
    let copied = home
        .run(&["sessions", "fork", "direct", "--to", "other"])
        .await;
    assert_says(&copied.stdout, &["Copied to cli:other."]);
}

/// Counts the syncs of session files, with `strace`, while a question is answered in an existing
/// session; `None` if `strace` is missing or may not trace.
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
    command
        .args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&trace);
    command
        .arg(env!("CARGO_BIN_EXE_nanobot"))
        .args(["agent", "-m", "second"]);
    // The model is served by this thread, so nothing may block it.
    let mut command = Command::from(command);
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = tokio::time::timeout(DEADLINE, running)
        .await
        .expect("the program ends in time");
    if !ended.is_ok_and(|ended| ended.status.success()) {
        return None;
    }
    let traced = std::fs::read_to_string(&trace).unwrap();
    Some(
        traced
            .lines()
            .filter(|line| line.contains("cli_direct.jsonl"))
            .count(),
    )
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn durability_os_syncs_no_session_file() {
    match (syncs_of_a_turn("disk").await, syncs_of_a_turn("os").await) {
        (Some(disk), Some(os)) => {
            assert!(disk >= 2, "the question and its answer are synced: {disk}");
            assert_eq!(os, 0, "nothing is synced");
        }
        _ => eprintln!(
            "SKIPPED: strace is not there or may not trace, so nobody can count the syncs of the program"
        ),
    }
}

/// Returns the line of a trace at which the call that `is_meant` selects was over. A call that
/// another thread interrupts has two lines.
#[cfg(target_os = "linux")]
fn over_at(lines: &[&str], is_meant: impl Fn(&str) -> bool) -> Option<usize> {
    let begun = lines.iter().position(|line| is_meant(line))?;
    let line = lines[begun];
    if !line.ends_with("<unfinished ...>") {
        return Some(begun);
    }
    let thread = line.split_whitespace().next()?;
    let is_rest =
        |line: &&str| line.split_whitespace().next() == Some(thread) && line.contains("resumed>");
    lines
        .iter()
        .skip(begun + 1)
        .position(is_rest)
        .map(|rest| begun + 1 + rest)
}

/// A power cut leaves no message whose file is missing: the file, its name and its folder's name
/// are synced before the message is in the ledger.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn received_file_is_synced_before_its_message_is_stored() {
    let (model, telegram) = (
        ModelServer::answering(|_| Reply::text("ok")).await.unwrap(),
        TelegramFake::start().await,
    );
    let (telegram, home) = (telegram.unwrap(), Home::new());
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"],
        }},
    }));
    let may_trace = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .status()
        .await;
    if !may_trace.is_ok_and(|status| status.success()) {
        eprintln!(
            "SKIPPED: strace is not there or may not trace, so nobody can see the order of syncs"
        );
        return;
    }
    let trace = home.path().join("trace");
    let mut command = home.of("strace".as_ref());
    // The gateway is the child of this test; the tracer is not.
    command
        .args([
            "-D",
            "-f",
            "-y",
            "-s",
            "5000",
            "-e",
            "trace=fsync,fdatasync,pwrite64",
            "-o",
        ])
        .arg(&trace);
    command
        .arg(env!("CARGO_BIN_EXE_nanobot"))
        .args(["gateway", "--port", "0"]);
    let gateway = Running::run(command).await;
    let file = Incoming::private(&Person::new(7, "Ann", "ann_x"), "read this");
    telegram.push(file.with_file(FileKind::Document, "report.txt", "text/plain", "the report"));
    until("it is answered", async || {
        telegram.texts_in(7).contains(&"ok".to_owned())
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    until("the trace is whole", async || {
        std::fs::read_to_string(&trace)
            .is_ok_and(|text| text.trim_end().ends_with("+++ exited with 0 +++"))
    })
    .await;
    let names = home.names("media/telegram");
    let [name] = names.as_slice() else {
        panic!("{names:?}")
    };
    let traced = std::fs::read_to_string(&trace).unwrap();
    let lines: Vec<&str> = traced.lines().collect();
    if !traced.contains("state.db") {
        eprintln!("SKIPPED: the tracer may not see which files are synced");
        return;
    }
    let named = lines
        .iter()
        .position(|line| line.contains("/state.db") && line.contains(name.as_str()));
    let named = named.expect("the ledger has the message");
    let synced = |place: &str| {
        over_at(&lines, |line| {
            line.contains("sync(") && line.contains(place)
        })
    };
    for place in ["/media/telegram/.part-", "/media/telegram>", "/media>"] {
        let synced = synced(place).unwrap_or_else(|| panic!("{place} is never synced"));
        assert!(
            synced < named,
            "{place} is synced in line {synced}, and the message is stored in line {named}"
        );
    }
}

/// Undoes, names, deletes and restores the conversation `cli:direct`, whose last message is `two?`.
async fn change_conversation(home: &Home) {
    let run = async |arguments: &[&str]| {
        let run = home.run(&[&["sessions"], arguments].concat()).await;
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        run.stdout
    };
    assert_says(
        &run(&["undo", "direct"]).await,
        &[
            "Undone: “two?” and what followed.",
            "sessions redo 'direct'",
        ],
    );
    assert!(!run(&["show", "direct"]).await.contains("two?"));
    run(&["redo", "direct"]).await;
    assert_says(&run(&["show", "direct"]).await, &["one?", "two?"]);
    let again = home.run(&["sessions", "redo", "direct"]).await;
    assert_eq!(again.code, 1);
    assert_says(&again.stderr, &["nothing to restore of cli:direct"]);

    assert_says(&run(&["list"]).await, &["cli:direct", "messages  one?"]);
    run(&["rename", "direct", "Trip to Kyoto"]).await;
    assert_says(&run(&["list"]).await, &["messages  Trip to Kyoto"]);
    for (search, is_found) in [("kyoto", true), ("two", true), ("nowhere", false)] {
        let listed = run(&["list", "--search", search]).await;
        assert_eq!(
            listed.contains("cli:direct"),
            is_found,
            "{search}: {listed}"
        );
    }
    let hostile = home
        .run(&["sessions", "rename", "direct", "\u{1b}]0;owned\u{7}"])
        .await;
    assert_eq!(hostile.code, 1);
    assert_says(&hostile.stderr, &["control character"]);
    let long = "x".repeat(200);
    let long = home.run(&["sessions", "rename", "direct", &long]).await;
    assert_says(&long.stderr, &["more than 120 characters"]);
    run(&["rename", "direct", ""]).await;
    assert_says(&run(&["list"]).await, &["messages  one?"]);

    let unasked = home.run(&["sessions", "delete", "direct"]).await;
    assert_eq!(unasked.code, 1);
    assert_says(&unasked.stderr, &["was not deleted", "--yes"]);
    let before = home.read("workspace/sessions/cli_direct.jsonl");
    assert_says(
        &run(&["delete", "direct", "--yes"]).await,
        &["Deleted cli:direct.", "sessions restore 'cli:direct'"],
    );
    assert!(!run(&["list"]).await.contains("cli:direct"));
    assert_says(&run(&["restore"]).await, &["cli:direct  deleted "]);
    assert_eq!(home.run(&["sessions", "show", "direct"]).await.code, 1);
    assert_says(
        &run(&["restore", "direct"]).await,
        &["Restored cli:direct."],
    );
    assert_eq!(home.read("workspace/sessions/cli_direct.jsonl"), before);
    for name in ["direct", "../../config.json", "cli:../x"] {
        let unknown = home.run(&["sessions", "restore", name]).await;
        assert_eq!(unknown.code, 1);
        assert_says(&unknown.stderr, &["there is no deleted conversation"]);
    }
    for command in ["undo", "redo", "delete"] {
        let unknown = home.run(&["sessions", command, "../../config.json"]).await;
        assert_eq!(unknown.code, 1);
        assert_says(&unknown.stderr, &["there is no conversation"]);
    }
}

#[tokio::test]
async fn conversations_are_changed_without_a_gateway() {
    let model = ModelServer::scripted(["First.", "Second."].map(Reply::text))
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    for question in ["one?", "two?"] {
        assert_eq!(home.run(&["agent", "-m", question]).await.code, 0);
    }
    change_conversation(&home).await;
}

#[tokio::test]
async fn conversations_are_changed_through_a_gateway() {
    let gate = Gate::new();
    let held = Reply::text("Third.").after(&gate);
    let replies = [
        Reply::text("First."),
        Reply::text("Second."),
        held,
        Reply::text("Fourth."),
    ];
    let model = ModelServer::scripted(replies).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    for question in ["one?", "two?"] {
        assert_eq!(home.run(&["agent", "-m", question]).await.code, 0);
    }
    until("nothing is at work there", async || {
        let undone = home.run(&["sessions", "undo", "direct"]).await;
        undone.code == 0
    })
    .await;
    assert_eq!(home.run(&["sessions", "redo", "direct"]).await.code, 0);
    change_conversation(&home).await;
    let (asked, ()) = tokio::join!(home.run(&["agent", "-m", "three?"]), async {
        model.wait_for(3).await.unwrap();
        for command in [
            &["sessions", "undo", "direct"][..],
            &["sessions", "delete", "direct", "--yes"],
        ] {
            let refused = home.run(command).await;
            assert_eq!(refused.code, 1, "{}", refused.stdout);
            assert_says(&refused.stderr, &["a turn is at work in cli:direct"]);
        }
        let renamed = home.run(&["sessions", "rename", "direct", "Busy"]).await;
        assert_eq!(renamed.code, 0, "{}", renamed.stderr);
        gate.open();
    });
    assert_eq!((asked.code, asked.stdout.as_str()), (0, "Third.\n"));
    let retried = home.run(&["agent", "-m", "/retry"]).await;
    assert_eq!(
        (retried.code, retried.stdout.as_str()),
        (0, "Fourth.\n"),
        "{}",
        retried.stderr
    );
    let shown = home.run(&["sessions", "show", "direct"]).await.stdout;
    assert!(
        shown.contains("three?") && !shown.contains("Third."),
        "{shown}"
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_of_an_unknown_conversation_names_its_own_remedy() {
    let model = ModelServer::answering(|_| Reply::text("ok")).await.unwrap();
    let home = Home::with_model(&model.base_url());
    for has_gateway in [false, true] {
        let gateway = match has_gateway {
            true => Some(Running::start(&home).await),
            false => None,
        };
        let mut screen = Screen::open(&home, &["agent"]);
        screen.wait_for("You: ");
        screen.type_in("/restore 没有 🗑\r");
        screen.wait_for("there is no deleted conversation cli:没有 🗑");
        screen.wait_for("`nanobot sessions restore` lists");
        screen.type_in("exit\r");
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        if let Some(gateway) = gateway {
            gateway.signal(Signal::SIGTERM);
            assert_eq!(gateway.end().await.1, Some(0));
        }
    }
}
