//! Strangers at the gateway's ports, and commands next to a gateway that does not answer.

use futures_util::future::join_all;
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::gateway::Running;
use crate::support::{Home, Run, assert_says};

/// More connections than the gateway may have open files.
const CONNECTIONS: usize = 1100;
const FILES: u32 = 1024;

#[tokio::test]
async fn connection_flood_blocks_neither_socket_nor_shutdown() {
    let model = ModelServer::scripted([Reply::text("Still here.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start_with_files(&home, FILES).await;
    let mut strangers = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stranger = TcpStream::connect(gateway.address()).await.unwrap();
        // The connection may already be closed; the write then fails.
        drop(
            stranger
                .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                .await,
        );
        strangers.push(stranger);
    }
    let asked = home.run(&["agent", "-m", "are you there?"]).await;
    assert_eq!(
        (asked.code, asked.stdout.as_str()),
        (0, "Still here.\n"),
        "{}",
        asked.stderr
    );
    let pid = format!("process {}", gateway.pid());
    assert_says(
        &home.run(&["gateway", "status"]).await.stdout,
        &["The gateway runs", &pid],
    );
    assert_says(&gateway.health().await, &["200 OK"]);
    // Partial requests are still open.
    gateway.signal(Signal::SIGTERM);
    let (rest, code) = gateway.end().await;
    assert_eq!(code, Some(0), "{rest}");
    assert!(
        !home.read("logs/gateway.log").contains("abandoning it"),
        "{rest}"
    );
    drop(strangers);
}

#[tokio::test]
async fn a_sandbox_that_is_off_warns_at_every_start() {
    let model = ModelServer::answering(|_| Reply::text("ok")).await.unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "tools": {"exec": {"sandbox": "off"}},
        "gateway": {"token": "short"},
    }));
    for _ in 0..2 {
        let asked = home.run(&["agent", "-m", "hello"]).await;
        assert_says(
            &asked.stderr,
            &["Warning: ", "tools.exec.sandbox is \"off\""],
        );
        let gateway = Running::start(&home).await;
        gateway.signal(Signal::SIGTERM);
        let (rest, code) = gateway.end().await;
        assert_eq!(code, Some(0), "{rest}");
        assert_says(
            &rest,
            &[
                "Warning: ",
                "tools.exec.sandbox is \"off\"",
                "gateway.token is shorter than 16",
            ],
        );
    }
}

#[tokio::test]
async fn hidden_characters_reach_neither_terminal_nor_logs() {
    const HIDDEN: [char; 5] = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{e0041}', '\u{feff}'];
    let hidden: String = HIDDEN.iter().collect();
    let emoji = "👩\u{200d}💻 ❤\u{fe0f}";
    let call = Reply::call("read_file", &json!({"path": format!("a{hidden}b")}));
    let reply = Reply::text(format!("Done {hidden} {emoji}."));
    let model = ModelServer::scripted([call, reply]).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    let asked = home
        .run(&["agent", "-m", &format!("hi {hidden} {emoji}")])
        .await;
    assert_eq!(asked.code, 0, "{}", asked.stderr);
    let mut shown = Vec::new();
    for arguments in [
        &["sessions", "show", "direct"][..],
        &["sessions", "list"],
        &["inbox", "--all"],
        &["inbox", "--all", "--json"],
        &["channels", "status"],
        &["pairing", "list"],
    ] {
        let run = home.run(arguments).await;
        shown.push((arguments.join(" "), run.stdout + &run.stderr));
    }
    gateway.signal(Signal::SIGTERM);
    shown.push(("the gateway".to_owned(), gateway.end().await.0));
    shown.push((
        "the gateway's log".to_owned(),
        home.read("logs/gateway.log"),
    ));
    shown.push(("the audit log".to_owned(), home.read("logs/audit.log")));
    for (name, text) in &shown {
        assert!(!text.contains(HIDDEN), "{name}: {text:?}");
    }
    let of = |wanted: &str| &shown.iter().find(|(name, _)| name == wanted).unwrap().1;
    assert_says(
        of("sessions show direct"),
        &["\\u{202e}\\u{2066}\\u{200b}\\u{e0041}\\u{feff}", emoji],
    );
    assert_says(
        of("the audit log"),
        &["a\\u202e\\u2066\\u200b\\udb40\\udc41\\ufeffb"],
    );
    let listed: serde_json::Value = serde_json::from_str(of("inbox --all --json")).unwrap();
    assert!(
        listed.to_string().contains(&hidden),
        "JSON has the same value: {listed}"
    );
}

#[tokio::test]
async fn commands_refuse_to_write_while_the_gateway_hangs() {
    let model = ModelServer::scripted([Reply::text("First.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    assert_eq!(home.run(&["agent", "-m", "one?"]).await.code, 0);
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    gateway.signal(Signal::SIGSTOP);

    let process = format!("process {}", gateway.pid());
    let kill = format!("kill -9 {}", gateway.pid());
    let is_refused = |run: &Run| {
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
        assert_says(
            &run.stderr,
            &[
                "waiting for the gateway…",
                &process,
                "does not answer",
                "try:",
                "nanobot gateway logs",
                &kill,
            ],
        );
    };
    // Each waits for an answer, so they run at the same time.
    let commands = [
        &["agent", "-m", "two?"][..],
        &["inbox"],
        &["inbox", "retry", "1"],
        &["sessions", "fork", "direct"],
        &["sessions", "rewind", "direct", "--to", "0"],
        &["channels", "status"],
        &["gateway", "status"],
        &["gateway", "stop"],
        &["gateway", "restart"],
    ];
    let (refused, prompt, status, doctor) = tokio::join!(
        join_all(commands.map(|arguments| home.run(arguments))),
        home.run_with_input(&["agent", "--lines"], b"two?\n"),
        home.run(&["status"]),
        home.run(&["doctor"]),
    );
    refused.iter().for_each(is_refused);
    is_refused(&prompt);
    assert_says(
        &status.stdout,
        &[
            "Gateway: ",
            &process,
            "does not answer",
            "Messages: unknown",
        ],
    );
    assert!(!status.stdout.contains("not running"), "{}", status.stdout);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    let waits = doctor.stderr.matches("waiting for the gateway…").count();
    assert_eq!(waits, 1, "{}", doctor.stderr);
    assert_says(&doctor.stdout, &["✗ ", &process, "does not answer", &kill]);
    assert!(
        !doctor.stdout.contains("the gateway does not run"),
        "{}",
        doctor.stdout
    );
    assert_eq!(home.read("workspace/sessions/cli_direct.jsonl"), session);
    assert_eq!(model.requests().len(), 1);

    gateway.signal(Signal::SIGCONT);
    assert_eq!(home.run(&["inbox", "--pending"]).await.stdout, "Nothing.\n");
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}
