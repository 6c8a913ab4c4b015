//! Files that tools can and cannot reach, with a model that does everything an attacker asks for.

use std::path::Path;

use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use serde_json::{Value, json};

use crate::support::{Home, assert_says};

/// A word that is in every file that no tool may read.
const CANARY: &str = "CANARY-7f3a";

/// Contents of the data folder other than the workspace.
const CLOSED: [&str; 9] = [
    "config.json.bak-20260101T000000",
    "config.json.bak",
    "state.db-wal",
    "restart.json",
    "pairing.json",
    "channels/email/refresh_token",
    "cron/jobs.json.bak",
    "history/cli_history",
    "prompts/of-a-session",
];

fn permissive_home(model: &ModelServer) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": CANARY, "apiBase": model.base_url()}},
        // The most permissive setting.
        "tools": {"restrictToWorkspace": false},
    }));
    home
}

/// Has the model make these calls in one turn, and returns their results.
async fn results(home: &Home, model: &ModelServer, arguments: &[&str]) -> Vec<String> {
    let mut command = home.program();
    command
        .current_dir(home.path())
        .args(["agent", "-m", "go on"])
        .args(arguments);
    let run = crate::support::finish(command, b"").await;
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    model.requests().last().unwrap().tool_results()
}

async fn model_that_calls(calls: Vec<(&str, Value)>) -> ModelServer {
    let calls = calls
        .into_iter()
        .map(|(name, arguments)| ScriptedCall::new(name, &arguments));
    ModelServer::scripted([
        Reply::calls(calls.collect::<Vec<_>>()),
        Reply::text("Done."),
    ])
    .await
    .unwrap()
}

#[tokio::test]
async fn tools_reach_only_their_part_of_the_data_folder() {
    for arguments in [&[][..], &["-w", "."], &["-w", "channels"]] {
        assert_closed(arguments).await;
    }
}

async fn assert_closed(arguments: &[&str]) {
    let mut calls: Vec<(&str, Value)> = Vec::new();
    let place = |name: &str| format!("~/.nanobot/{name}");
    for name in CLOSED.into_iter().chain(["config.json"]) {
        calls.push(("read_file", json!({"path": place(name)})));
        calls.push((
            "write_file",
            json!({"path": place(name), "content": "mine"}),
        ));
        calls.push(("exec", json!({"command": format!("cat {}", place(name))})));
        calls.push((
            "exec",
            json!({"command": format!("echo mine > {}", place(name))}),
        ));
    }
    calls.push((
        "write_file",
        json!({"path": place("new.json"), "content": "mine"}),
    ));
    calls.push((
        "list_dir",
        json!({"path": place("channels"), "recursive": true}),
    ));
    calls.push((
        "exec",
        json!({"command": "grep -r CANARY .", "working_dir": place("")}),
    ));
    let refused = calls.len();
    for name in [
        "library/notes.md",
        "logs/audit.log",
        "logs/gateway.log",
        "media/telegram/a.txt",
    ] {
        calls.push((
            "write_file",
            json!({"path": place(name), "content": "mine"}),
        ));
        calls.push((
            "edit_file",
            json!({"path": place(name), "old_text": "kept", "new_text": "mine"}),
        ));
        calls.push((
            "exec",
            json!({"command": format!("echo mine >> {}", place(name))}),
        ));
        calls.push(("exec", json!({"command": format!("rm {}", place(name))})));
    }
    let fenced = calls.len();
    let open = [
        "library/notes.md",
        "logs/old.log",
        "media/telegram/a.txt",
        "tool-results/r.txt",
        "workspace/own.md",
    ];
    for name in open {
        calls.push(("read_file", json!({"path": place(name)})));
    }
    let model = model_that_calls(calls).await;
    let home = permissive_home(&model);
    for name in CLOSED {
        home.write(name, CANARY);
    }
    for name in open
        .into_iter()
        .chain(["logs/audit.log", "logs/gateway.log"])
    {
        home.write(name, "kept");
    }
    std::fs::create_dir_all(home.workspace()).unwrap();
    let results = results(&home, &model, arguments).await;
    assert_eq!(results.len(), fenced + open.len());
    for (index, result) in results.iter().enumerate() {
        if index < fenced {
            assert!(
                result.starts_with("Error"),
                "{arguments:?} {index}/{refused}: {result}"
            );
            assert!(!result.contains(CANARY), "{result}");
        } else {
            assert_says(result, &["kept"]);
        }
    }
    for name in CLOSED {
        // The database may have removed its own log by now.
        let text = std::fs::read_to_string(home.path().join(name)).unwrap_or_default();
        assert!(!text.contains("mine"), "{name}");
    }
    assert!(!home.path().join("new.json").exists());
}

#[tokio::test]
async fn tools_cannot_write_memory_versions() {
    let versions = "memory/.versions/MEMORY.md";
    let model = model_that_calls(vec![
        ("write_file", json!({"path": versions, "content": "mine"})),
        (
            "write_file",
            json!({"path": "memory/.versions/new", "content": "mine"}),
        ),
        (
            "exec",
            json!({"command": format!("echo mine > {versions}")}),
        ),
        ("exec", json!({"command": "rm -r memory"})),
        (
            "write_file",
            json!({"path": "memory/MEMORY.md", "content": "a fact"}),
        ),
    ])
    .await;
    let home = permissive_home(&model);
    home.write(&format!("workspace/{versions}"), "kept");
    let results = results(&home, &model, &[]).await;
    for refused in &results[..4] {
        assert!(refused.starts_with("Error"), "{refused}");
    }
    assert_says(&results[4], &["Successfully wrote"]);
    assert_eq!(home.read(&format!("workspace/{versions}")), "kept");
}

/// A second name of a secret file is as closed as the first, wherever it is.
#[cfg(unix)]
#[tokio::test]
async fn links_to_secret_files_are_refused() {
    let read = |path: &str| ("read_file", json!({"path": path}));
    let edit = |path: &str| {
        (
            "edit_file",
            json!({"path": path, "old_text": "kept", "new_text": "mine"}),
        )
    };
    let write = |path: &str| ("write_file", json!({"path": path, "content": "mine"}));
    let model = model_that_calls(vec![
        read("key"),
        read("configuration"),
        read("token"),
        write("token"),
        edit("log"),
        write("log"),
        ("exec", json!({"command": "cat configuration"})),
        ("exec", json!({"command": "echo mine >> log"})),
        ("exec", json!({"command": "cp token copy"})),
        ("message", json!({"content": "here", "media": ["token"]})),
        read("twin"),
        write("twin"),
    ])
    .await;
    let home = permissive_home(&model);
    let ssh = home.path().parent().unwrap().join(".ssh");
    std::fs::create_dir_all(ssh.join("deep")).unwrap();
    std::fs::create_dir_all(home.workspace()).unwrap();
    std::fs::write(ssh.join("deep/id"), CANARY).unwrap();
    home.write("channels/email/token", CANARY);
    home.write("logs/old.log", "kept");
    home.write("workspace/original", "kept");
    let link =
        |from: &Path, name: &str| std::fs::hard_link(from, home.workspace().join(name)).unwrap();
    link(&ssh.join("deep/id"), "key");
    link(&home.path().join("config.json"), "configuration");
    link(&home.path().join("channels/email/token"), "token");
    link(&home.path().join("logs/old.log"), "log");
    link(&home.workspace().join("original"), "twin");
    let results = results(&home, &model, &[]).await;
    for refused in &results[..10] {
        assert!(refused.starts_with("Error"), "{results:#?}");
        assert!(!refused.contains(CANARY), "{refused}");
    }
    assert_eq!(home.read("channels/email/token"), CANARY);
    assert_eq!(home.read("logs/old.log"), "kept");
    assert_says(&results[10], &["kept"]);
    assert_eq!(
        (home.read("workspace/twin"), home.read("workspace/original")),
        ("mine".into(), "kept".into())
    );
}

#[cfg(unix)]
mod through_the_gateway {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    #[cfg(target_os = "linux")]
    use std::path::Path;

    use nanobot_channel_telegram_fake::{Fault, Incoming, Person, TOKEN, TelegramFake};
    use nanobot_testkit::{ModelServer, Reply};
    use nix::sys::signal::Signal;
    use serde_json::json;

    use super::CANARY;
    use crate::gateway::Running;
    #[cfg(target_os = "linux")]
    use crate::support::finish;
    use crate::support::{Home, assert_says, until};

    /// While the platform asks for a pause, the file becomes a link to a file outside.
    #[tokio::test]
    async fn attachment_is_copied_when_the_tool_runs() {
        let model = ModelServer::scripted([
            Reply::call(
                "message",
                &json!({"content": "Here", "media": ["report.txt"]}),
            ),
            Reply::text("Done."),
            Reply::call(
                "message",
                &json!({"content": "And this", "media": ["report.txt", "gone.txt"]}),
            ),
            Reply::text("It is not there."),
        ]);
        let (model, telegram, home) = (
            model.await.unwrap(),
            TelegramFake::start().await.unwrap(),
            Home::new(),
        );
        home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
            "channels": {"telegram": {
                "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"],
            }},
        }));
        let outside = home.path().parent().unwrap().join("outside.txt");
        std::fs::write(&outside, CANARY).unwrap();
        home.write("workspace/report.txt", "the report");
        telegram.fail_next("sendDocument", Fault::RetryAfter(1));
        telegram.fail_next("sendDocument", Fault::RetryAfter(2));
        let gateway = Running::start(&home).await;
        let ann = Person::new(7, "Ann", "ann_x");
        telegram.push(Incoming::private(&ann, "send it"));
        telegram.wait_for_calls("sendDocument", 1).await.unwrap();
        std::fs::remove_file(home.workspace().join("report.txt")).unwrap();
        symlink(&outside, home.workspace().join("report.txt")).unwrap();
        let file = telegram
            .wait_for("the file", |sent| {
                sent.iter().find_map(|message| message.file.clone())
            })
            .await
            .unwrap();
        assert_eq!(
            (file.name.as_str(), &file.bytes[..]),
            ("report.txt", &b"the report"[..])
        );
        // The tool's message is the reply of that turn.
        model.wait_for(2).await.unwrap();

        std::fs::remove_file(home.workspace().join("report.txt")).unwrap();
        home.write("workspace/report.txt", "the report");
        telegram.push(Incoming::private(&ann, "and the other one"));
        until("it is told", async || {
            telegram
                .texts_in(7)
                .contains(&"It is not there.".to_owned())
        })
        .await;
        let requests = model.requests();
        assert_says(
            requests.last().unwrap().tool_results().last().unwrap(),
            &["Message not sent: there is no file gone.txt"],
        );
        assert!(!telegram.texts_in(7).contains(&"And this".to_owned()));
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.end().await.1, Some(0));
    }

    /// The gateway is killed while a platform asks for a pause. Then one file is deleted, and the
    /// others become links to a file outside.
    #[tokio::test]
    async fn attachment_survives_deletion_and_gateway_kill() {
        // The kill may come while the platform is called, so uncertain messages are sent again.
        let media = json!(["report.txt", "gone.txt", "[sticker:wave]"]);
        let model = ModelServer::scripted([
            Reply::call("message", &json!({"content": "Here", "media": media})),
            Reply::text("Done."),
        ]);
        let (model, telegram, home) = (
            model.await.unwrap(),
            TelegramFake::start().await.unwrap(),
            Home::new(),
        );
        home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
            "channels": {"telegram": {
                "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"],
                "uncertain": "resend_marked",
            }},
        }));
        let outside = home.path().parent().unwrap().join("outside.txt");
        std::fs::write(&outside, CANARY).unwrap();
        home.write("workspace/stickers/index.json", r#"{"wave": "wave.txt"}"#);
        for (name, text) in [
            ("report.txt", "the report"),
            ("gone.txt", "what is gone"),
            ("stickers/wave.txt", "hi"),
        ] {
            home.write(&format!("workspace/{name}"), text);
        }
        for _ in 0..3 {
            telegram.fail_next("sendMediaGroup", Fault::RetryAfter(1));
        }
        let gateway = Running::start(&home).await;
        telegram.push(Incoming::private(
            &Person::new(7, "Ann", "ann_x"),
            "send them",
        ));
        telegram.wait_for_calls("sendMediaGroup", 1).await.unwrap();
        gateway.signal(Signal::SIGKILL);
        gateway.end().await;
        for name in ["report.txt", "gone.txt", "stickers/wave.txt"] {
            std::fs::remove_file(home.workspace().join(name)).unwrap();
        }
        for name in ["report.txt", "stickers/wave.txt"] {
            symlink(&outside, home.workspace().join(name)).unwrap();
        }
        let gateway = Running::start(&home).await;
        let sent = |sent: &[nanobot_channel_telegram_fake::SentMessage]| {
            let files: Vec<_> = sent
                .iter()
                .filter_map(|message| message.file.clone())
                .collect();
            Some(files).filter(|files| files.len() >= 2)
        };
        let files = telegram.wait_for("the files", sent).await.unwrap();
        let files: Vec<_> = files
            .iter()
            .map(|file| (file.name.as_str(), &file.bytes[..]))
            .collect();
        assert_eq!(
            files,
            [
                ("report.txt", &b"the report"[..]),
                ("gone.txt", &b"what is gone"[..])
            ]
        );
        // The sticker's name is resolved when the message is sent, and the link leads out of the
        // folder.
        let is_text = async || {
            telegram
                .texts_in(7)
                .iter()
                .any(|text| text.contains("[sticker:wave]"))
        };
        until("the sticker that is none any more stays as text", is_text).await;
        assert!(
            telegram
                .sent()
                .iter()
                .all(|message| !message.text.contains(CANARY))
        );
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.end().await.1, Some(0));
    }

    /// Files that an older version left readable are tightened, which is reported once.
    #[tokio::test]
    async fn loose_permissions_are_tightened_and_reported_once() {
        let home = Home::new();
        home.configure(&json!({"agents": {"defaults": {"model": "demo"}}}));
        home.write("channels/email/token", CANARY);
        home.write("workspace/own.sh", "#!/bin/sh\n");
        let mode = |name: &str| {
            home.path()
                .join(name)
                .metadata()
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        let set = |name: &str, mode: u32| {
            std::fs::set_permissions(
                home.path().join(name),
                std::fs::Permissions::from_mode(mode),
            )
            .unwrap();
        };
        for (name, mode) in [
            ("", 0o755),
            ("config.json", 0o644),
            ("channels/email", 0o755),
            ("workspace/own.sh", 0o755),
        ] {
            set(name, mode);
        }
        let said = "other users could read";
        let first = home.run(&["agent", "--demo", "-m", "hello"]).await;
        assert_eq!(first.code, 0, "{}", first.stderr);
        assert_eq!(first.stderr.matches(said).count(), 1, "{}", first.stderr);
        for (name, expected) in [
            ("", 0o700),
            ("config.json", 0o600),
            ("channels/email", 0o700),
            ("channels/email/token", 0o600),
            ("state.db", 0o600),
            ("workspace/own.sh", 0o755),
            ("workspace/memory/MEMORY.md", 0o600),
        ] {
            assert_eq!(mode(name), expected, "{name}");
        }
        let second = home.run(&["agent", "--demo", "-m", "hello"]).await;
        assert!(!second.stderr.contains(said), "{}", second.stderr);
        for (expected, name) in [(1, "config.json"), (0, "workspace/own.sh")] {
            set(name, 0o755);
            let gateway = Running::start(&home).await;
            gateway.signal(Signal::SIGTERM);
            let (rest, code) = gateway.end().await;
            assert_eq!(
                (code, rest.matches(said).count()),
                (Some(0), expected),
                "{name}: {rest}"
            );
        }
        assert_eq!(
            (mode("config.json"), mode("workspace/own.sh")),
            (0o700, 0o755)
        );
    }

    /// Other processes of the same user can read neither its memory nor its environment, and the
    /// files that it creates are private to its user.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn gateway_memory_and_files_are_private() {
        // The kernel applies the protection only to unprivileged users.
        let ordinary = |home: &Home, arguments: &[&str]| {
            if !nix::unistd::geteuid().is_root() {
                let mut command = home.of(Path::new(arguments[0]));
                command.args(&arguments[1..]);
                return command;
            }
            let mut command = home.of(Path::new("setpriv"));
            command
                .args(["--bounding-set", "-all", "--inh-caps", "-all"])
                .args(arguments);
            command
        };
        let home = Home::new();
        home.configure(&json!({"agents": {"defaults": {"model": "demo"}}}));
        let reads = async |pid: u32| {
            let environment = format!("/proc/{pid}/environ");
            finish(ordinary(&home, &["/bin/cat", &environment]), b"").await
        };
        let mut other = tokio::process::Command::from(ordinary(&home, &["/bin/sleep", "1000"]));
        let mut other = other.kill_on_drop(true).spawn().unwrap();
        let other_pid = other.id().unwrap();
        let is_asleep = async || {
            std::fs::read_to_string(format!("/proc/{other_pid}/comm"))
                .is_ok_and(|name| name.trim() == "sleep")
        };
        until("the other program runs", is_asleep).await;
        let readable = reads(other_pid).await;
        assert_says(&readable.stdout, &["HOME="]);
        other.kill().await.unwrap();

        let gateway = Running::run(ordinary(
            &home,
            &[env!("CARGO_BIN_EXE_nanobot"), "gateway", "--port", "0"],
        ))
        .await;
        let assert_closed = reads(gateway.pid()).await;
        assert_eq!(
            (assert_closed.code, assert_closed.stdout.as_str()),
            (1, ""),
            "{}",
            assert_closed.stderr
        );
        assert_says(&assert_closed.stderr, &["ermission denied"]);
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
        assert_says(&status, &["\nUmask:\t0077\n"]);
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.end().await.1, Some(0));
    }
}
