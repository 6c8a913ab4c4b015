//! `exec`: results, limits, environment, and cleanup of processes.
#![cfg(unix)]

use std::io::{PipeReader, PipeWriter, Read as _};
use std::time::Duration;

use nanobot_tool::ToolContext;
use nanobot_types::{Effect, ToolCall};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::json;
use tokio::sync::oneshot;

use crate::fixture::{Fixture, error};

/// Longer than any test takes, and much shorter than the commands that have to be killed.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

async fn sh(fixture: &Fixture, command: &str) -> String {
    fixture.call("exec", json!({"command": command})).await
}

#[tokio::test]
async fn output_format_is_stable() {
    let fixture = Fixture::new();
    for (command, expected) in [
        ("true", "\nExit code: 0"),
        ("echo hi", "hi\n\n\nExit code: 0"),
        (
            "echo out; echo err >&2; exit 3",
            "out\n\nSTDERR:\nerr\n\n\nExit code: 3",
        ),
        ("printf '\\377'", "\u{fffd}\n\nExit code: 0"),
        ("kill -9 $$", "\nExit code: -9"),
    ] {
        assert_eq!(sh(&fixture, command).await, expected, "{command}");
    }
    assert!(
        !fixture
            .run("exec", json!({"command": "exit 1"}))
            .await
            .success
    );
    let registry = fixture.registry();
    assert_eq!(
        registry.effect(&ToolCall::new("1", "exec", "{}")),
        Some(Effect::Irreversible)
    );
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let answer = sh(
        &Fixture::new(),
        "head -c 3000000 /dev/zero | tr '\\0' x; echo end",
    )
    .await;
    assert!(answer.starts_with("xxxx") && answer.ends_with("xend\n\n\nExit code: 0"));
    assert!(answer.contains(" chars truncated) ...") && answer.chars().count() < 10_100);
}

#[tokio::test]
async fn command_does_not_inherit_the_assistants_environment() {
    let mut fixture = Fixture::new();
    fixture.config.exec.path_append = "/opt/appended".to_owned();
    let answer = sh(&fixture, "env").await;
    let (variables, _) = answer.split_once("\n\n").unwrap();
    let needed = ["HOME", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR", "PATH"];
    // The shell itself adds these.
    let own = ["PWD", "OLDPWD", "SHLVL", "_"];
    for line in variables.lines() {
        let name = line.split('=').next().unwrap();
        assert!(needed.contains(&name) || own.contains(&name), "{line}");
    }
    assert!(
        variables
            .lines()
            .any(|line| line.starts_with("PATH=") && line.ends_with(":/opt/appended"))
    );
    fixture.config.exec.allowed_env_keys = vec!["CARGO_MANIFEST_DIR".to_owned()];
    assert!(sh(&fixture, "env").await.contains("CARGO_MANIFEST_DIR="));
}

/// A pipe inherited by every process started while it exists; it reaches its end when the last of
/// them exits.
struct InheritedPipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl InheritedPipe {
    fn new() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        Self { reader, writer }
    }

    /// Waits until the last of those processes has exited.
    async fn end(self) {
        let Self { mut reader, writer } = self;
        drop(writer);
        let (left, is_left) = oneshot::channel();
        // If a process is still running, the test fails without waiting for the thread.
        std::thread::spawn(move || left.send(reader.read(&mut [0]).unwrap()));
        assert_eq!(
            tokio::time::timeout(WAIT_LIMIT, is_left).await,
            Ok(Ok(0)),
            "a process is still running"
        );
    }
}

#[tokio::test]
async fn a_timeout_ends_the_command_and_its_children() {
    let fixture = Fixture::new();
    let processes = InheritedPipe::new();
    let command = "echo some; sleep 600 & sleep 600";
    let answer = fixture
        .call("exec", json!({"command": command, "timeout": 5}))
        .await;
    assert_eq!(
        answer,
        error("Command timed out after 5 seconds\n\nOutput until then:\nsome\n")
    );
    processes.end().await;
    let answer = fixture
        .call("exec", json!({"command": "sleep 600", "timeout": 1}))
        .await;
    assert_eq!(answer, error("Command timed out after 1 seconds"));
    let refused = fixture
        .call("exec", json!({"command": "true", "timeout": 601}))
        .await;
    assert!(
        refused.starts_with("Error: Invalid parameters for tool 'exec'"),
        "{refused}"
    );
}

#[tokio::test]
async fn background_processes_end_with_the_command() {
    let fixture = Fixture::new();
    let processes = InheritedPipe::new();
    assert_eq!(
        sh(&fixture, "sleep 600 & echo done").await,
        "done\n\n\nExit code: 0"
    );
    processes.end().await;
}

#[tokio::test]
async fn stopping_the_turn_stops_the_command() {
    let fixture = Fixture::new();
    let context = ToolContext::detached("cli:direct");
    let stop = async {
        let started = async {
            while !fixture.path("ws/started").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_LIMIT, started).await.unwrap();
        context.cancel.cancel();
    };
    let processes = InheritedPipe::new();
    let command = json!({"command": "touch started; sleep 600"});
    let (result, ()) = tokio::join!(fixture.run_with("exec", command, &context), stop);
    assert!(
        !result.success && result.output.starts_with("Error: "),
        "{}",
        result.output
    );
    processes.end().await;
}

#[tokio::test]
async fn working_dir_must_be_an_allowed_directory() {
    let fixture = Fixture::new();
    fixture.write("ws/sub/f", "");
    assert!(sh(&fixture, "ls").await.contains("AGENTS.md"));
    let inside = fixture
        .call("exec", json!({"command": "ls", "working_dir": "sub"}))
        .await;
    assert_eq!(inside, "f\n\n\nExit code: 0");
    let outside = fixture
        .call("exec", json!({"command": "ls", "working_dir": ".."}))
        .await;
    assert!(
        outside.starts_with("Error: Path .. is outside"),
        "{outside}"
    );
    let file = fixture
        .call("exec", json!({"command": "ls", "working_dir": "sub/f"}))
        .await;
    assert_eq!(file, error("working_dir is not a directory: sub/f"));
}

#[tokio::test]
async fn configured_patterns_apply_to_every_stage() {
    let mut fixture = Fixture::new();
    fixture.config.exec.deny_patterns = vec!["^git push".to_owned()];
    for denied in [
        "git push",
        "true && GIT push",
        "echo $(git push)",
        "timeout 5 git push",
    ] {
        let answer = sh(&fixture, denied).await;
        assert!(
            answer.contains("(deny pattern '^git push' matches)"),
            "{denied}: {answer}"
        );
    }
    fixture.config.exec.allow_patterns = vec![
        "^(echo|timeout)\\b".to_owned(),
        "^git push --dry-run".to_owned(),
    ];
    assert!(
        sh(&fixture, "echo a | echo b; timeout 5 echo c")
            .await
            .ends_with("Exit code: 0")
    );
    for refused in [
        "ls",
        "echo a; ls",
        "echo $(ls)",
        "timeout 5 ls",
        "echo x && git push",
    ] {
        assert!(
            sh(&fixture, refused)
                .await
                .starts_with("Error: Command blocked"),
            "{refused}"
        );
    }
    fixture.config.exec.deny_patterns = vec!["(".to_owned()];
    let policy = std::sync::Arc::new(nanobot_guard::PathPolicy::new(fixture.rules()));
    let http = std::sync::Arc::new(nanobot_tools::HttpClients::new(
        &fixture.config.web,
        std::sync::Arc::new(nanobot_guard::UrlGuard::default()),
        std::sync::Arc::new(nanobot_testkit::InProcess),
    ));
    let runner = std::sync::Arc::new(nanobot_tools::DirectRunner);
    let broken = nanobot_tools::builtin(&fixture.config, &policy, &http, runner);
    assert_eq!(
        broken.unwrap_err().to_string(),
        "tools.exec: '(' is not a regular expression"
    );
}

#[tokio::test]
async fn urls_in_a_command_are_checked() {
    let fixture = Fixture::open();
    for command in [
        "curl http://169.254.169.254/latest/",
        "echo ok && curl 'http://127.0.0.1:1/x'",
        "wget 10.0.0.1/x",
        "git clone http://localhost/x",
    ] {
        let answer = sh(&fixture, command).await;
        assert!(
            answer.contains("internal or forbidden URL"),
            "{command}: {answer}"
        );
    }
    assert_eq!(
        sh(&fixture, "echo http://127.0.0.1/").await,
        "http://127.0.0.1/\n\n\nExit code: 0"
    );
}

#[tokio::test]
async fn output_from_elsewhere_is_marked() {
    let fixture = Fixture::new();
    let run = async |arguments: serde_json::Value| fixture.run("exec", arguments).await.untrusted;
    let read = json!({"command": "echo https://example.com/a"});
    assert_eq!(run(read).await.as_deref(), Some("exec"));
    assert_eq!(run(json!({"command": "echo here"})).await, None);
}
