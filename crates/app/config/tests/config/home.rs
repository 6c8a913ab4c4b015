//! A home in a temporary directory, and sections like those of the real program.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nanobot_config::{Config, ConfigError, Environment, Loader, Paths, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AgentDefaults {
    pub(crate) workspace: String,
    pub(crate) model: String,
    pub(crate) max_tokens: u32,
    pub(crate) context_window_tokens: i64,
    pub(crate) memory_window: Option<u32>,
    pub(crate) temperature: f64,
    pub(crate) reasoning_effort: Option<String>,
    pub(crate) max_concurrent_turns: Option<u32>,
}

impl Default for AgentDefaults {
    fn default() -> Self {
        Self {
            workspace: "~/.nanobot/workspace".into(),
            model: "anthropic/claude-opus-4-5".into(),
            max_tokens: 8192,
            context_window_tokens: 65536,
            memory_window: None,
            temperature: 0.1,
            reasoning_effort: None,
            max_concurrent_turns: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Gateway {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 18790,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Tools {
    pub(crate) restrict_to_workspace: bool,
    pub(crate) allowed_paths: Vec<String>,
    pub(crate) exec: Exec,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            restrict_to_workspace: true,
            allowed_paths: Vec::new(),
            exec: Exec::default(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Exec {
    pub(crate) timeout: u64,
    pub(crate) path_append: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Provider {
    pub(crate) api_key: String,
    pub(crate) api_base: Option<String>,
    pub(crate) extra_headers: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct McpServer {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Access {
    pub(crate) allow_from: Option<Vec<String>>,
}

pub(crate) fn schema() -> Schema {
    Schema::new()
        .section("agents.defaults", &AgentDefaults::default())
        .unwrap()
        .section("gateway", &Gateway::default())
        .unwrap()
        .section("tools", &Tools::default())
        .unwrap()
        .map("providers", &Provider::default())
        .unwrap()
        .names("providers", ["openai", "openrouter", "azureOpenai"])
        .map("tools.mcpServers", &McpServer::default())
        .unwrap()
        .section(
            "channels",
            &json!({"sendProgress": true, "sendToolHints": false}),
        )
        .unwrap()
        .variants(
            "channels",
            "kind",
            [(
                "telegram",
                json!({"enabled": false, "token": "", "allowFrom": null, "replyToMessage": false}),
            )],
        )
        .unwrap()
}

/// A home directory that is removed with the test.
pub(crate) struct Home {
    pub(crate) directory: tempfile::TempDir,
    variables: Vec<(String, String)>,
    overrides: Vec<(String, String)>,
}

impl Home {
    pub(crate) fn empty() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            variables: Vec::new(),
            overrides: Vec::new(),
        }
    }

    pub(crate) fn with(file: impl AsRef<[u8]>) -> Self {
        let home = Self::empty();
        fs::write(home.file(), file).unwrap();
        home
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub(crate) fn option(mut self, key: &str, text: &str) -> Self {
        self.overrides.push((key.into(), text.into()));
        self
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("config.json")
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths::resolve(&self.environment(), None).unwrap()
    }

    pub(crate) fn environment(&self) -> Environment {
        let home = self.directory.path().to_string_lossy().into_owned();
        let mut variables = self.variables.clone();
        variables.push(("NANOBOT_HOME".into(), home));
        Environment::new(variables, Some("/people/ann".into()), "/work".into())
    }

    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        self.load_with(schema())
    }

    pub(crate) fn load_with(&self, schema: Schema) -> Result<Config, ConfigError> {
        let loader = Loader::new(schema, self.paths(), self.environment());
        self.overrides
            .iter()
            .fold(loader, |loader, (key, text)| {
                loader.with_override(key, text)
            })
            .load()
    }

    /// Replaces this home in a text by `~`.
    pub(crate) fn tilde(&self, text: &impl ToString) -> String {
        let home = self.directory.path().to_string_lossy().into_owned();
        text.to_string().replace(&home, "~")
    }
}
