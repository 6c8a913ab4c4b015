//! A temporary workspace with the tools on it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nanobot_guard::{PathPolicy, PathRules};
use nanobot_tool::{Registry, ToolContext};
use nanobot_tools::{DirectRunner, HttpClients, ToolsConfig, builtin};
use nanobot_types::{ToolCall, ToolResult};
use serde_json::Value;
use tempfile::TempDir;

/// The folders that the attack corpus describes: `ws`, `outside`, `home`, `extra`.
pub(crate) struct Fixture {
    root: TempDir,
    pub(crate) config: ToolsConfig,
}

impl Fixture {
    /// Creates tools confined to an almost empty workspace.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let config = ToolsConfig {
            protected_paths: vec!["AGENTS.md".into(), "policy".into()],
            ..ToolsConfig::default()
        };
        let fixture = Self { root, config };
        for (path, text) in [
            ("ws/AGENTS.md", "rules\n"),
            ("ws/policy/rules.json", "{}"),
            ("outside/canary.txt", "OUTSIDE-CANARY-55aa"),
            ("outside/dir/file", "x"),
            (
                "home/.app/config.json",
                r#"{"apiKey":"CANARY-SECRET-7f3a"}"#,
            ),
            ("home/.ssh/id_ed25519", "CANARY-SSH-KEY-13cd"),
        ] {
            fixture.write(path, text);
        }
        fixture
    }

    /// Creates the same fixture without confinement.
    pub(crate) fn open() -> Self {
        let mut fixture = Self::new();
        fixture.config.restrict_to_workspace = false;
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn rules(&self) -> PathRules {
        PathRules {
            home: Some(self.path("home")),
            secret_paths: vec![self.path("home/.app/config.json"), self.path("home/.ssh")],
            read_only_roots: vec![self.path("extra")],
            ..self.config.path_rules(self.path("ws"))
        }
    }

    /// Returns the tools that requests list, and those on demand.
    pub(crate) fn registry(&self) -> Registry {
        self.registry_with(true)
    }

    fn registry_with(&self, has_on_demand: bool) -> Registry {
        let policy = Arc::new(PathPolicy::new(self.rules()));
        let guard = Arc::new(self.config.url_guard().unwrap());
        let http = Arc::new(HttpClients::new(
            &self.config.web,
            guard,
            Arc::new(nanobot_testkit::InProcess),
        ));
        let registry = Registry::new();
        let tools = builtin(&self.config, &policy, &http, Arc::new(DirectRunner)).unwrap();
        let tools = match has_on_demand {
            true => tools.all(),
            false => tools.listed,
        };
        for tool in tools {
            registry.register(tool).unwrap();
        }
        registry
    }

    /// Calls a tool and returns the whole result.
    pub(crate) async fn run(&self, tool: &str, arguments: Value) -> ToolResult {
        self.run_with(tool, arguments, &ToolContext::detached("cli:direct"))
            .await
    }

    pub(crate) async fn run_with(
        &self,
        tool: &str,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolResult {
        let call = ToolCall::new("call", tool, arguments.to_string());
        self.registry().run(&call, context).await
    }

    /// Calls a tool and returns the output that the model reads.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> String {
        self.run(tool, arguments).await.output
    }
}

/// Formats an error as the model reads it.
pub(crate) fn error(text: impl AsRef<str>) -> String {
    format!("Error: {}{}", text.as_ref(), nanobot_tool::ERROR_HINT)
}

pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Every request pays for the schemas, so all seven together have to be short.
#[test]
fn tool_specs_are_sorted_and_short() {
    let fixture = Fixture::new();
    let specs = fixture.registry_with(false).specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let expected = [
        "edit_file",
        "exec",
        "list_dir",
        "read_file",
        "web_fetch",
        "web_search",
        "write_file",
    ];
    assert_eq!(names, expected);
    let size: usize = specs
        .iter()
        .map(|spec| spec.description.len() + spec.parameters.to_string().len())
        .sum();
    assert!(size < 3_000, "{size}");
    let all = fixture.registry().specs();
    let added: Vec<&str> = all
        .iter()
        .map(|spec| spec.name.as_str())
        .filter(|name| !expected.contains(name))
        .collect();
    assert_eq!(
        added,
        [
            "apply_patch",
            "find_files",
            "grep",
            "list_exec_sessions",
            "write_stdin"
        ]
    );
}

#[test]
fn disabled_tools_are_not_registered() {
    let mut fixture = Fixture::new();
    fixture.config.web.enable = false;
    fixture.config.exec.enable = false;
    fixture.config.file.enable = false;
    assert_eq!(fixture.registry().specs().len(), 0);
}
