//! Slash commands in every kind of client, the restart that one of them causes, and the logs that
//! remain.

use std::path::{Path, PathBuf};

use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::{ModelServer, Reply, ReservedPort, WebSocketClient};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, assert_says, finish, until};

/// Commands with a part of their answers, in a conversation of one turn.
const ANSWERS: [(&str, &str); 18] = [
    ("/help", "/restart — Restart the assistant"),
    ("/undo", "” and what followed."),
    ("/retry now", "/retry takes no arguments."),
    ("/redo", "Restored."),
    ("/status", "Context: about "),
    ("/usage", "Tokens since start: "),
    ("/context", "Context of "),
    ("/compact", "nothing to summarise"),
    ("/summarize", "No older messages wait to be summarised."),
    ("/memory", "MEMORY.md"),
    ("/skill", "skill-creator"),
    ("/agents", "subagent"),
    ("/branch", "A copy of it is "),
    ("/pending", "settled"),
    ("/stop", "No active task to stop."),
    ("/start", "Hi, I am nanobot."),
    ("/frobnicate it", "There is no command /frobnicate."),
    ("/clear", "New session started."),
];

#[tokio::test]
async fn piped_commands_are_answered_line_by_line() {
    let model = ModelServer::scripted([Reply::text("Hello.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let input: String = ["hello"]
        .into_iter()
        .chain(ANSWERS.map(|(command, _)| command))
        .collect::<Vec<_>>()
        .join("\n");
    let run = home
        .run_with_input(&["agent", "--lines"], input.as_bytes())
        .await;
    // Two of them are refused.
    assert_eq!(run.code, 1, "{}", run.stderr);
    let mut rest = run.stdout.strip_prefix("Hello.\n").expect(&run.stdout);
    for (command, expected) in ANSWERS {
        rest = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{command} in {}", run.stdout))
            .1;
    }
    for (command, code, expected) in [
        ("/status", 0, "Context: about "),
        ("/nwe", 1, "Did you mean /new?"),
        ("/status x", 1, "/status takes no arguments."),
        ("/skill nope", 1, "There is no skill nope."),
        ("/agents stop 7", 1, "No subagent 7"),
        ("/pending frob", 1, "/pending lists"),
        ("/pairing approve 777", 1, "Unknown code"),
    ] {
        let run = home.run(&["agent", "-m", command]).await;
        assert_eq!(run.code, code, "{command}: {}", run.stderr);
        assert_says(&run.stdout, &[expected]);
    }
    let asked: Vec<String> = model
        .requests()
        .iter()
        .map(|request| format!("{request:?}"))
        .collect();
    assert!(
        asked.iter().all(|request| !request.contains("frobnicate")),
        "no command is sent to the model"
    );
}

#[tokio::test]
async fn command_that_cannot_do_what_was_asked_fails() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    for (command, code, expected) in [
        ("/help", 0, "/restart — Restart the assistant"),
        ("/help redo", 0, "/redo — Restore"),
        ("/help /redo", 0, "/redo — Restore"),
        (
            "/help nwe",
            1,
            "There is no command /nwe. Did you mean /new?",
        ),
        ("/help **no** /such", 1, "There is no command /no."),
        ("/undo", 1, "There is no message to go back to here."),
        ("/retry", 1, "There is no message to go back to here."),
        ("/redo", 1, "There is nothing to restore."),
        ("/branch", 1, "There is nothing to copy yet."),
        ("/restore nope", 1, "There is no command /restore."),
        ("/rename", 1, "There is no command /rename."),
        ("/diff", 1, "There is no command /diff."),
        ("/agents stop nope", 1, "No subagent nope"),
        ("/pending retry nope", 1, "no entry nope"),
        ("/pairing frob", 1, "/pairing lists"),
        ("/pairing deny", 1, "/pairing lists"),
        ("/pairing revoke 7", 1, "/pairing revoke CHANNEL ID"),
        (
            "/pairing revoke telegram 7",
            1,
            "was not approved on telegram",
        ),
        // Nothing to do is no mistake.
        ("/pairing", 0, "Approved: nobody"),
        ("/pending", 0, "settled"),
        ("/agents", 0, "No subagents"),
        ("/stop", 0, "No active task to stop."),
        ("/compact", 0, "nothing to summarise"),
        ("/summarize stop", 0, "No older messages wait"),
        ("/new", 0, "New session started."),
    ] {
        let run = home.run(&["agent", "--json", "-m", command]).await;
        let lines: Vec<Value> = run
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of_type = |name: &str| lines.iter().find(|line| line["type"] == name).unwrap();
        let reply = of_type("reply");
        let outcome = (run.code, &reply["ok"], of_type("end"));
        let is_ok = code == 0;
        let end = json!({"type": "end", "ok": is_ok, "code": code});
        assert_eq!(outcome, (code, &json!(is_ok), &end), "{command}: {reply}");
        assert_says(reply["text"].as_str().unwrap(), &[expected]);
    }
}

#[tokio::test]
async fn piped_line_ends_when_the_message_tool_replied() {
    let written = |text: &str| Reply::call("message", &json!({"content": text}));
    let replies = [
        written("One."),
        written("And two."),
        Reply::text("kept"),
        Reply::text("Three."),
    ];
    let model = ModelServer::scripted(replies).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let config = std::fs::read_to_string(home.path().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["channels"] = json!({"sendProgress": false});
    home.configure(&config);
    let run = home
        .run_with_input(
            &["agent", "--lines"],
            b"write twice\nand now?\n/restart\n/help restart\n",
        )
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let expected = "One.\nAnd two.\nThree.\nRestarting...\n/restart — Restart the assistant\n";
    assert_eq!(run.stdout, expected, "{}", run.stderr);
    assert_says(&run.stderr, &["Restarted."]);
}

async fn ask(client: &mut WebSocketClient, text: &str) -> String {
    client.send_text(text).await.unwrap();
    loop {
        let event = client
            .receive_until("message")
            .await
            .unwrap()
            .pop()
            .unwrap();
        // A refused command is answered with a notice; other notices are no answers.
        let text = event["text"].as_str().unwrap();
        if event["kind"] == "final" || text.ends_with("/help lists the commands.") {
            return text.to_owned();
        }
    }
}

async fn connect(port: &ReservedPort) -> WebSocketClient {
    let url = format!("ws://{}/?client_id=me", port.address());
    let mut client = WebSocketClient::connect_soon(&url).await.unwrap();
    client.receive_until("ready").await.unwrap();
    client
}

#[tokio::test]
async fn commands_work_in_every_channel_and_restart_restarts() {
    let secret = "sk-proj-abcdefgh12345678";
    let looked = Reply::call("exec", &json!({"command": format!("echo loud {secret}")}));
    let silent = Reply::call("message", &json!({"content": "by the tool"}));
    let model = ModelServer::scripted([looked, silent, Reply::text("kept")])
        .await
        .unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let port = ReservedPort::new().unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {
            "websocket": {"enabled": true, "port": port.number(), "websocketRequiresToken": false, "allowFrom": ["*"]},
            "telegram": {"enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"]},
        },
    }));
    let gateway = Running::start(&home).await;
    let mut client = connect(&port).await;

    // A turn that answers only through the tool also has an end.
    client.send_text("whisper something").await.unwrap();
    let heard = client.receive_until("turn_end").await.unwrap();
    let said: Vec<&str> = heard
        .iter()
        .filter(|e| e["kind"] == "final")
        .filter_map(|e| e["text"].as_str())
        .collect();
    assert_eq!(said, ["by the tool"]);
    for (command, expected) in ANSWERS {
        let answer = ask(&mut client, command).await;
        assert!(answer.contains(expected), "{command}: {answer}");
    }
    assert_says(
        &home.run(&["agent", "-m", "/status"]).await.stdout,
        &["Session cli:direct"],
    );

    let status = home.run(&["status"]).await.stdout;
    assert_says(
        &status,
        &[
            "Gateway: running (pid ",
            "answering with test-model (custom)",
        ],
    );

    // The menu lists the table of commands, and a group cannot restart the assistant.
    let ann = Person::new(7, "Ann", "ann_x");
    telegram.push(Incoming::private(&ann, "/help"));
    telegram.push(Incoming::group(-1005, &ann, "/restart"));
    let sent = telegram.wait_for_sent(2).await.unwrap();
    let texts: Vec<&str> = sent.iter().map(|message| message.text.as_str()).collect();
    assert!(
        texts.iter().any(|text| text.contains("nanobot commands")),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("/restart works in private chats only")),
        "{texts:?}"
    );
    let menu: Vec<Value> = telegram
        .commands()
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["command"].clone())
        .collect();
    for command in [
        "new", "stop", "status", "usage", "context", "compact", "memory", "skill", "agents",
        "restart",
    ] {
        assert!(menu.contains(&json!(command)), "{command} in {menu:?}");
    }

    // A pipe waits for the gateway that it restarts, and its lines are not lost.
    let piped = home
        .run_with_input(&["agent", "--lines"], b"/restart\n/help restart\n")
        .await;
    assert_eq!(piped.code, 0, "{}", piped.stderr);
    assert_eq!(
        piped.stdout, "Restarting...\n/restart — Restart the assistant\n",
        "{}",
        piped.stderr
    );
    assert_says(&piped.stderr, &["Restarted."]);

    // The restart keeps the process id, and the confirmation is sent once.
    telegram.push(Incoming::private(&ann, "/restart"));
    let told = async || telegram.texts_in(7).iter().any(|text| text == "Restarted.");
    until("the restart is told", told).await;
    assert_eq!(
        telegram
            .texts_in(7)
            .iter()
            .filter(|text| text.starts_with("Restart"))
            .count(),
        2
    );
    assert!(!home.names("").contains(&"restart.json".to_owned()));
    let mut client = connect(&port).await;
    assert_says(&ask(&mut client, "/status").await, &["Session websocket:"]);
    gateway.signal(Signal::SIGTERM);
    let (_, code) = gateway.end().await;
    assert_eq!(code, Some(0));
    assert_logs(&home, secret);
}

/// Tool runs are in the audit log; conversations and secrets are in no log.
fn assert_logs(home: &Home, secret: &str) {
    let log = home.read("logs/gateway.log");
    assert_eq!(log.matches("gateway started").count(), 3, "{log}");
    let audit = home.read("logs/audit.log");
    for hidden in ["whisper", "by the tool", "test-key", secret] {
        assert!(!log.contains(hidden), "{hidden} in {log}");
    }
    assert!(!audit.contains(secret), "{audit}");
    let lines: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Other lines are about messages and people.
    let shown: Vec<Value> = lines
        .iter()
        .filter(|line| !line["tool"].is_null())
        .map(|line| {
            json!([
                line["channel"],
                line["sender"],
                line["tool"],
                line["effect"],
                line["arguments"]
            ])
        })
        .collect();
    assert_eq!(
        shown,
        [
            json!(["websocket", "me", "exec", "irreversible", {"command": "echo loud ***"}]),
            json!(["websocket", "me", "message", "idempotent", {"content": "by the tool"}]),
        ]
    );
}

/// Returns every file below a folder, relative to it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn nothing_is_written_outside_the_configured_home() {
    let home = Home::new();
    let brain = home.path().with_file_name("elsewhere");
    let write = |path: &str| {
        Reply::call(
            "write_file",
            &json!({"path": brain.join(path), "content": "mine"}),
        )
    };
    let replies = [
        write("workspace/notes.md"),
        write("logs/audit.log"),
        write("library/skills/weather/SKILL.md"),
        Reply::call("read_file", &json!({"path": brain.join("logs/audit.log")})),
        Reply::text("done"),
    ];
    let model = ModelServer::scripted(replies).await.unwrap();
    std::fs::create_dir_all(&brain).unwrap();
    let config = json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "tools": {"restrictToWorkspace": false},
        // Every line fills a file, so every line rotates the log.
        "logs": {"maxBytes": 1, "keepFiles": 3},
    });
    std::fs::write(brain.join("config.json"), config.to_string()).unwrap();
    let run = async |arguments: &[&str]| {
        let mut command = home.program();
        command.env("NANOBOT_HOME", &brain).args(arguments);
        let run = finish(command, b"").await;
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        run.stdout
    };
    assert_eq!(run(&["agent", "-m", "write"]).await, "done\n");
    for arguments in [
        &["status"] as &[&str],
        &["sessions", "list"],
        &["skills", "list"],
        &["inbox"],
        &["config", "path"],
    ] {
        run(arguments).await;
    }
    let outside: Vec<PathBuf> = files_below(brain.parent().unwrap())
        .into_iter()
        .filter(|path| !path.starts_with("elsewhere"))
        .collect();
    assert_eq!(outside, Vec::<PathBuf>::new());
    assert_says(&run(&["status"]).await, &["Gateway: not running"]);
    let inside = files_below(&brain);
    let mut places: Vec<&str> = inside
        .iter()
        .filter_map(|path| path.iter().next()?.to_str())
        .collect();
    places.dedup();
    // The backup is made once, on the first run on a home with a configuration.
    places.retain(|place| !place.starts_with("config.json.bak-"));
    let known = [
        "config.json",
        "gateway.lock",
        "index.db",
        "library",
        "logs",
        "prompts",
        "state.db",
        "workspace",
    ];
    assert!(
        places.iter().all(|place| known.contains(place)),
        "{places:?}"
    );
    assert_eq!(
        std::fs::read_to_string(brain.join("workspace/notes.md")).unwrap(),
        "mine"
    );
    let parts = ["audit.log.3", "audit.log.2", "audit.log.1", "audit.log"]
        .map(|name| brain.join("logs").join(name));
    let audit: String = parts
        .iter()
        .map(|part| std::fs::read_to_string(part).unwrap())
        .collect();
    let outcomes: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let successes: Vec<bool> = outcomes
        .iter()
        .map(|line| line["success"].as_bool().unwrap())
        .collect();
    assert_eq!(successes, [true, false, false, true], "{audit}");
}
