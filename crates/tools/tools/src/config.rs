//! The `tools` section of the configuration, as far as these tools read it.
//!
//! Keys and defaults are those of the Python program, except where safety or privacy required
//! otherwise: tools are confined to the workspace by default, and pages are fetched directly unless
//! Jina's reader is enabled.

use std::{path::PathBuf, sync::Arc};

use ipnet::IpNet;
use nanobot_guard::{PathRules, SystemResolver, UrlGuard};
use nanobot_redact::{Secret, serialize_exposed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ToolsError;

/// Folder below the workspace that holds the per-session folders.
const WORK_FOLDERS: &str = "work";

/// `tools`: which tools are enabled, and what they may access.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolsConfig {
    /// `tools.web`.
    pub web: WebConfig,
    /// `tools.exec`.
    pub exec: ExecConfig,
    /// `tools.file`.
    pub file: FileConfig,
    /// Confines file and shell tools to the workspace.
    pub restrict_to_workspace: bool,
    /// Starts relative paths of tools in a folder of the session, below `work/` in the workspace,
    /// rather than in the workspace itself.
    pub session_folders: bool,
    /// Additional folders that confined tools may use; `~` is the home folder.
    pub allowed_paths: Vec<PathBuf>,
    /// Files and folders that can be read but never changed, whether tools are confined or not.
    pub protected_paths: Vec<PathBuf>,
    /// Networks outside the public internet that may be fetched from, in CIDR notation. Cloud
    /// metadata services stay blocked.
    pub ssrf_whitelist: Vec<String>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            web: WebConfig::default(),
            exec: ExecConfig::default(),
            file: FileConfig::default(),
            restrict_to_workspace: true,
            session_folders: false,
            allowed_paths: Vec::new(),
            protected_paths: Vec::new(),
            ssrf_whitelist: Vec::new(),
        }
    }
}

impl ToolsConfig {
    /// Returns the rules of a path policy for `workspace`. The caller adds secret paths and
    /// read-only roots, which depend on the installation and not on the configuration.
    pub fn path_rules(&self, workspace: impl Into<PathBuf>) -> PathRules {
        PathRules {
            restrict: self.restrict_to_workspace,
            work_folders: self.session_folders.then(|| WORK_FOLDERS.into()),
            allowed_paths: self.allowed_paths.clone(),
            protected_paths: self.protected_paths.clone(),
            ..PathRules::new(workspace)
        }
    }

    /// Builds the URL guard, with the system's resolver.
    ///
    /// # Errors
    /// Returns [`ToolsError::Network`] if an entry of `ssrfWhitelist` is not a network.
    pub fn url_guard(&self) -> Result<UrlGuard, ToolsError> {
        Ok(UrlGuard::new(
            Arc::new(SystemResolver),
            self.opened_networks()?,
        ))
    }

    /// Returns the networks of `ssrfWhitelist`.
    ///
    /// # Errors
    /// Returns [`ToolsError::Network`] if an entry is not a network.
    pub fn opened_networks(&self) -> Result<Vec<IpNet>, ToolsError> {
        let parse = |network: &String| {
            network.parse().map_err(|source| ToolsError::Network {
                network: network.clone(),
                source,
            })
        };
        self.ssrf_whitelist.iter().map(parse).collect()
    }
}

/// `tools.file`: the file tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileConfig {
    /// Enables the file tools.
    pub enable: bool,
}

impl Default for FileConfig {
    fn default() -> Self {
        Self { enable: true }
    }
}

/// `tools.exec`: the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecConfig {
    /// Enables the shell tool.
    pub enable: bool,
    /// Timeout after which a command is killed, in seconds, at most 600; 0 lets a command run until
    /// its turn is stopped.
    #[schemars(range(max = 600))]
    pub timeout: u64,
    /// Folders prepended to `PATH`.
    pub path_prepend: String,
    /// Folders appended to `PATH`.
    pub path_append: String,
    /// Environment variables that commands inherit besides `HOME`, `LANG`, `TERM`, `PATH`, `TZ` and
    /// `TMPDIR`.
    pub allowed_env_keys: Vec<String>,
    /// If not empty, every stage of a command must match one of these regular expressions. A
    /// matching stage is exempt from the deny patterns, built-in ones included; all other rules
    /// still apply.
    pub allow_patterns: Vec<String>,
    /// Regular expressions that refuse a stage, in addition to the built-in ones.
    pub deny_patterns: Vec<String>,
    /// What commands may access.
    pub sandbox: SandboxProfile,
    /// Further paths that commands in the sandbox may read; `~` is the home folder. Secret paths stay
    /// closed.
    pub sandbox_ro_binds: Vec<PathBuf>,
    /// Further paths that commands in the sandbox may read and write. Secret paths stay closed, and
    /// protected ones read-only.
    pub sandbox_rw_binds: Vec<PathBuf>,
    /// `tools.exec.limits`.
    pub limits: ExecLimits,
}

impl Default for ExecConfig {
    fn default() -> Self {
        Self {
            enable: true,
            timeout: 60,
            path_prepend: String::new(),
            path_append: String::new(),
            allowed_env_keys: Vec::new(),
            allow_patterns: Vec::new(),
            deny_patterns: Vec::new(),
            sandbox: SandboxProfile::default(),
            sandbox_ro_binds: Vec::new(),
            sandbox_rw_binds: Vec::new(),
            limits: ExecLimits::default(),
        }
    }
}

/// `tools.exec.sandbox`: what commands may access. The kernel enforces it; protected and secret
/// paths are closed in every profile but `off`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxProfile {
    /// `workspace` if tools are confined to the workspace, otherwise `open`. `bwrap`, of the Python
    /// program, means the same.
    #[default]
    #[serde(rename = "", alias = "bwrap", alias = "auto")]
    Automatic,
    /// They write in the workspace, read programs of the system, and have no network.
    Workspace,
    /// The same with the network, services of this computer and of its network included.
    Network,
    /// Everything that this user may access, and the network.
    Open,
    /// There is no sandbox, and nothing is closed.
    Off,
}

impl SandboxProfile {
    /// Returns the profile for tools that are confined to the workspace, or not.
    #[must_use]
    pub fn resolved(self, restricted: bool) -> Self {
        match self {
            Self::Automatic if restricted => Self::Workspace,
            Self::Automatic => Self::Open,
            other => other,
        }
    }
}

/// `tools.exec.limits`: limits of commands in a sandbox; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecLimits {
    /// Memory of one process (heap and private mappings), in MiB.
    pub memory_mb: u64,
    /// Processes and threads of one command at a time.
    pub processes: u64,
    /// Size of one written file, in MiB.
    pub file_size_mb: u64,
}

impl Default for ExecLimits {
    fn default() -> Self {
        Self {
            memory_mb: 4096,
            processes: 1024,
            file_size_mb: 4096,
        }
    }
}

/// `tools.web`: searching and fetching.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebConfig {
    /// Enables both web tools.
    pub enable: bool,
    /// Proxy for both (`http://…`, `socks5://…`); empty for none. Without this key, the proxy
    /// variables of the environment apply.
    pub proxy: Option<String>,
    /// `User-Agent` header; without one, that of a desktop browser.
    pub user_agent: Option<String>,
    /// `tools.web.search`.
    pub search: SearchConfig,
    /// `tools.web.fetch`.
    pub fetch: FetchConfig,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            enable: true,
            proxy: None,
            user_agent: None,
            search: SearchConfig::default(),
            fetch: FetchConfig::default(),
        }
    }
}

/// `tools.web.fetch`: reading pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FetchConfig {
    /// Tries Jina's reader first. It sees every URL that is fetched, so it is off by
    /// default, unlike in the Python program.
    pub use_jina_reader: bool,
    /// Base URL of Jina's reader.
    pub jina_reader_base: String,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            use_jina_reader: false,
            jina_reader_base: "https://r.jina.ai".to_owned(),
        }
    }
}

/// `tools.web.search`: searching.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SearchConfig {
    /// The search provider. Without the API key that it needs, or without an address for SearXNG,
    /// DuckDuckGo is the fallback.
    #[schemars(extend("enum" = [
        "brave", "tavily", "duckduckgo", "searxng", "jina", "kagi", "exa", "olostep", "bocha",
        "volcengine", "keenable", "serper",
    ]))]
    pub provider: String,
    /// API key of the provider; if empty, the variable of the provider is read: `BRAVE_API_KEY`,
    /// `TAVILY_API_KEY`, `JINA_API_KEY`, `KAGI_API_KEY`, `EXA_API_KEY`, `OLOSTEP_API_KEY`,
    /// `BOCHA_API_KEY`, `VOLCENGINE_SEARCH_API_KEY` or `WEB_SEARCH_API_KEY`, `KEENABLE_API_KEY`,
    /// `SERPER_API_KEY`.
    #[serde(serialize_with = "serialize_exposed")]
    #[schemars(with = "String")]
    pub api_key: Secret,
    /// Base URL of SearXNG; if empty, `SEARXNG_BASE_URL` is read.
    pub base_url: String,
    /// Default number of results.
    #[schemars(range(min = 1, max = 10))]
    pub max_results: u32,
    /// Timeout of a search, in seconds.
    pub timeout: u64,
    /// Time for which the results of a search are kept in memory, in minutes; 0 keeps none.
    #[schemars(range(max = 1440))]
    pub cache_minutes: u64,
    /// URLs of the other providers.
    pub endpoints: SearchEndpoints,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            provider: "brave".to_owned(),
            api_key: Secret::default(),
            base_url: String::new(),
            max_results: 5,
            timeout: 30,
            cache_minutes: 10,
            endpoints: SearchEndpoints::default(),
        }
    }
}

/// `tools.web.search.endpoints`: full URLs of the search providers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SearchEndpoints {
    /// URL of Brave's web search.
    pub brave: String,
    /// URL of Tavily's search.
    pub tavily: String,
    /// URL of Jina's search.
    pub jina: String,
    /// URL of DuckDuckGo's HTML page for browsers without scripts.
    pub duckduckgo: String,
    /// URL of Kagi's search.
    pub kagi: String,
    /// URL of Exa's search.
    pub exa: String,
    /// URL of Olostep's search.
    pub olostep: String,
    /// URL of Bocha's web search.
    pub bocha: String,
    /// URL of Volcengine's web search.
    pub volcengine: String,
    /// URL of Keenable's search.
    pub keenable: String,
    /// URL of Serper's search.
    pub serper: String,
}

impl Default for SearchEndpoints {
    fn default() -> Self {
        Self {
            brave: "https://api.search.brave.com/res/v1/web/search".to_owned(),
            tavily: "https://api.tavily.com/search".to_owned(),
            jina: "https://s.jina.ai/".to_owned(),
            duckduckgo: "https://html.duckduckgo.com/html/".to_owned(),
            kagi: "https://kagi.com/api/v0/search".to_owned(),
            exa: "https://api.exa.ai/search".to_owned(),
            olostep: "https://api.olostep.com/v1/searches".to_owned(),
            bocha: "https://api.bochaai.com/v1/web-search".to_owned(),
            volcengine: "https://open.feedcoopapi.com/search_api/web_search".to_owned(),
            keenable: "https://api.keenable.ai/v1/search".to_owned(),
            serper: "https://google.serper.dev/search".to_owned(),
        }
    }
}
