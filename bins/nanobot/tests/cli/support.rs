//! A home for a test, and runs of the program in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Maximum time for any run of the program, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);
/// Interval between checks of something that sends no notification when it changes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Result of a run of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The exit code; -1 if a signal ended it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// An empty home.
pub(crate) struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// Returns a home whose configuration names this OpenAI-compatible server.
    pub(crate) fn with_model(base: &str) -> Self {
        let home = Self::new();
        home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": base}},
        }));
        home
    }

    /// Returns the data directory, which holds `config.json`.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(".nanobot")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }

    pub(crate) fn configure(&self, config: &Value) {
        self.write(
            "config.json",
            &serde_json::to_string_pretty(config).unwrap(),
        );
    }

    /// Writes a file below the data directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// Returns the names of the files in a folder below the data directory, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path().join(folder)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns the program with an environment that has only `PATH` from this process.
    pub(crate) fn program(&self) -> std::process::Command {
        self.of(Path::new(env!("CARGO_BIN_EXE_nanobot")))
    }

    /// Returns any program in this home.
    pub(crate) fn of(&self, program: &Path) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.path())
            .env("TERM", "xterm")
            .current_dir(self.directory.path());
        if !has_sandbox() {
            command.env("NANOBOT_TOOLS__EXEC__SANDBOX", "off");
        }
        command
    }

    /// Runs the program without input.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Run {
        let mut command = self.program();
        command.args(arguments);
        finish(command, b"").await
    }

    /// Runs the program with this input.
    pub(crate) async fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut command = self.program();
        command.args(arguments);
        finish(command, input).await
    }
}

/// Runs a command to its end.
pub(crate) async fn finish(command: std::process::Command, input: &[u8]) -> Run {
    let mut command = Command::from(command);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let write = async {
        // A program that reads no input closes it.
        drop(stdin.write_all(input).await);
        drop(stdin);
    };
    let ended = async { tokio::join!(write, child.wait_with_output()).1 };
    let output = tokio::time::timeout(DEADLINE, ended)
        .await
        .expect("the program ends in time")
        .unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits until `is_so` returns `true`.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    assert!(
        tokio::time::timeout(DEADLINE, looking).await.is_ok(),
        "waited in vain until {what}"
    );
}

/// Asserts that every one of `parts` is in the text.
#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

/// Returns `true` if this computer has a sandbox for commands. Without one, commands run unconfined
/// in tests, and tests of the sandbox are skipped, unless `NANOBOT_REQUIRE_TEST_SERVERS` is set.
pub(crate) fn has_sandbox() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let program = env!("CARGO_BIN_EXE_nanobot").into();
        let Err(error) = nanobot_sandbox::Sandbox::find(program) else {
            return true;
        };
        let is_required = std::env::var_os("NANOBOT_REQUIRE_TEST_SERVERS").is_some();
        assert!(!is_required, "{error}");
        #[expect(clippy::print_stderr, reason = "who runs the tests has to see it")]
        {
            eprintln!("SKIPPED: {error}");
        }
        false
    })
}
