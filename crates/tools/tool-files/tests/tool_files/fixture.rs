//! A workspace with tool files, and what lies outside of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nanobot_guard::{PathPolicy, PathRules};
use nanobot_sandbox::{Mechanism, Sandbox};
use nanobot_tool::{Registry, ToolContext};
use nanobot_tool_files::{ScanMode, ToolFileStatus, ToolFiles, ToolFilesConfig, ToolFilesSettings};
use nanobot_types::{ToolCall, ToolResult};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const OUTSIDE_CANARY: &str = "OUTSIDE-CANARY-55aa";
pub(crate) const SECRET_CANARY: &str = "CANARY-SECRET-7f3a";
pub(crate) const KEY_CANARY: &str = "CANARY-SSH-KEY-13cd";
/// Longest wait for a condition. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a workspace `ws`, a neighbour `outside` and a home folder `home`.
#[derive(Debug)]
pub(crate) struct Fixture {
    root: TempDir,
    pub(crate) config: ToolFilesConfig,
    pub(crate) mechanism: Option<Mechanism>,
    pub(crate) idle: Duration,
}

impl Fixture {
    /// Returns a workspace, or `None` if this computer cannot run tool files.
    pub(crate) fn new() -> Option<Self> {
        if !can_run() {
            return None;
        }
        let fixture = Self {
            // Not below /tmp, which no view shows.
            root: tempfile::tempdir_in("/var/tmp").unwrap(),
            config: ToolFilesConfig::default(),
            mechanism: None,
            idle: ToolFilesSettings::IDLE,
        };
        for (path, text) in [
            ("outside/canary.txt", OUTSIDE_CANARY),
            ("home/.app/config.json", SECRET_CANARY),
            ("home/.ssh/id_ed25519", KEY_CANARY),
            ("ws/notes.txt", "one\ntwo\n"),
            ("ws/AGENTS.md", "rules\n"),
        ] {
            fixture.write(path, text);
        }
        Some(fixture)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a file below the root.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes `tools/<name>.py` with one tool of that name, whose `execute` has this body.
    pub(crate) fn tool(&self, name: &str, body: &str) {
        self.write(&format!("ws/tools/{name}.py"), &source(name, body));
    }

    /// Removes a file or folder of the tools.
    pub(crate) fn remove(&self, name: &str) {
        let path = self.path("ws/tools").join(name);
        match path.is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }

    pub(crate) fn policy(&self) -> PathPolicy {
        PathPolicy::new(PathRules {
            home: Some(self.path("home")),
            secret_paths: vec![self.path("home/.app/config.json"), self.path("home/.ssh")],
            protected_paths: vec![self.path("ws/AGENTS.md")],
            ..PathRules::new(self.path("ws"))
        })
    }

    /// Returns the tools as a new process would have them, with a registry that no one refreshed.
    pub(crate) fn open(&self) -> (Arc<ToolFiles>, Arc<Registry>) {
        let reserved = BTreeSet::from(["read_file".to_owned(), "exec".to_owned()]);
        let files = ToolFiles::new(ToolFilesSettings {
            launcher: Some(env!("CARGO_BIN_EXE_nanobot-tool-files-launcher").into()),
            mechanism: self.mechanism.clone(),
            idle: self.idle,
            ..ToolFilesSettings::new(self.config.clone(), self.policy(), reserved)
        });
        let files = Arc::new(files);
        let registry = Registry::new().fed_by(files.clone());
        (files, Arc::new(registry))
    }

    /// Returns the tools after a first look.
    pub(crate) async fn opened(&self) -> (Arc<ToolFiles>, Arc<Registry>) {
        let (files, registry) = self.open();
        registry.refresh().await;
        (files, registry)
    }

    /// Returns all files outside of the workspace with their content.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for folder in ["outside", "home", "ws/AGENTS.md"] {
            collect(&self.path(folder), &mut files);
        }
        files
    }

    /// Loads files although the scan finds something, so that only the sandbox confines them.
    pub(crate) fn without_scan(mut self) -> Self {
        self.config.scan = ScanMode::Warn;
        self
    }
}

/// Returns the source of a file with one tool.
pub(crate) fn source(name: &str, body: &str) -> String {
    let body: String = body
        .lines()
        .map(|line| format!("        {line}\n"))
        .collect();
    format!(
        "from tool_api import Tool\n\n\
         class T(Tool):\n    \
             name = \"{name}\"\n    \
             description = \"The tool {name}.\"\n\n    \
             async def execute(self, **given):\n{body}"
    )
}

/// Returns `true` if there is a sandbox and Python. Without them tests are skipped, unless
/// `NANOBOT_REQUIRE_TEST_SERVERS` is set.
fn can_run() -> bool {
    static CAN_RUN: OnceLock<bool> = OnceLock::new();
    *CAN_RUN.get_or_init(|| {
        let launcher = env!("CARGO_BIN_EXE_nanobot-tool-files-launcher").into();
        let python = ["/usr/bin/python3", "/usr/local/bin/python3"];
        let has_python = python.iter().any(|path| Path::new(path).exists());
        let missing = match Sandbox::find(launcher) {
            Err(error) => error.to_string(),
            Ok(_) if !has_python => "there is no python3 in /usr/bin or /usr/local/bin".to_owned(),
            Ok(_) => return true,
        };
        let is_required = std::env::var_os("NANOBOT_REQUIRE_TEST_SERVERS").is_some();
        assert!(!is_required, "{missing}");
        eprintln!("SKIPPED: {missing}");
        false
    })
}

fn collect(path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    if !path.is_dir() {
        if let Ok(content) = std::fs::read(path) {
            files.insert(path.to_owned(), content);
        }
        return;
    }
    for entry in std::fs::read_dir(path).unwrap() {
        collect(&entry.unwrap().path(), files);
    }
}

pub(crate) fn names(registry: &Registry) -> Vec<String> {
    let specs = registry.specs();
    specs.iter().map(|spec| spec.name.to_string()).collect()
}

pub(crate) async fn call(registry: &Registry, name: &str, arguments: Value) -> ToolResult {
    let call = ToolCall::new("1", name, arguments.to_string());
    registry
        .run(&call, &ToolContext::detached("cli:direct"))
        .await
}

/// Returns the reason why a file is not loaded; empty if it is.
pub(crate) fn problem<'a>(files: &'a [ToolFileStatus], name: &str) -> &'a str {
    let file = files.iter().find(|file| file.file == name).unwrap();
    file.problem.as_deref().unwrap_or_default()
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "never: {what}");
}
