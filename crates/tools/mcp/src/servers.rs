//! All servers of a configuration, and the registries that list their tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ipnet::IpNet;
use nanobot_redact::Secrets;
use nanobot_tool::{Registry, Tool as _, ToolContext};
use nanobot_types::{ToolCall, ToolResult};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::McpError;
use crate::config::McpServerConfig;
use crate::definition::{Definition, DefinitionKind};
use crate::oauth::{self, GrantFile, McpLogin};
use crate::record::Record;
use crate::server::Server;
use crate::tool::McpTool;
use crate::transport::headers;

/// Time that servers have to end at shutdown.
const SHUTDOWN: Duration = Duration::from_secs(6);

/// Settings of all servers.
#[derive(Clone, Debug)]
pub struct McpSettings {
    /// The servers by name.
    pub servers: BTreeMap<String, McpServerConfig>,
    /// Maximum size of the listed tools, in tokens.
    pub token_budget: usize,
    /// Folder of the file with the approved definitions, `mcp.json`.
    pub folder: PathBuf,
    /// Texts that no argument may contain. Tokens of logins are added to them.
    pub secrets: Secrets,
    /// Networks besides the public internet that addresses named by servers may be in.
    pub opened: Vec<IpNet>,
}

/// What all servers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) record: Record,
    pub(crate) grants: GrantFile,
    pub(crate) opened: Vec<IpNet>,
    pub(crate) tasks: TaskTracker,
    pub(crate) cancel: CancellationToken,
    pub(crate) secrets: Secrets,
    /// Names of all servers.
    pub(crate) names: Vec<String>,
    registries: Mutex<Vec<Weak<Registry>>>,
    /// Rest of the token budget.
    room: Mutex<usize>,
}

impl Shared {
    /// Takes a number of tokens from the budget; `false` if they exceed it.
    pub(crate) fn takes(&self, tokens: usize) -> bool {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = room.checked_sub(tokens);
        *room = rest.unwrap_or(*room);
        rest.is_some()
    }

    pub(crate) fn register(&self, tool: &Arc<McpTool>) {
        self.for_each_registry(|registry| register(registry, tool));
    }

    pub(crate) fn unregister(&self, tool: &Arc<McpTool>) {
        let name = &tool.spec().name;
        self.for_each_registry(|registry| {
            // Another tool may have the name.
            let found = registry.get(name);
            if found.is_some_and(|found| std::ptr::eq(found.spec(), tool.spec())) {
                registry.remove(name);
            }
        });
    }

    fn for_each_registry(&self, act: impl Fn(&Registry)) {
        let registries = self.registries.lock();
        let mut registries = registries.unwrap_or_else(PoisonError::into_inner);
        registries.retain(|registry| registry.strong_count() > 0);
        for registry in registries.iter().filter_map(Weak::upgrade) {
            act(&registry);
        }
    }
}

fn register(registry: &Registry, tool: &Arc<McpTool>) {
    let registered = match tool.is_deferred {
        true => registry.register_deferred(tool.clone()),
        false => registry.register(tool.clone()),
    };
    if let Err(error) = registered {
        tracing::warn!(%error, "a tool of an MCP server was left out");
    }
}

/// The servers of a configuration. Dropping it ends them; [`McpServers::close`] waits for that.
#[derive(Debug)]
pub struct McpServers {
    servers: Vec<Arc<Server>>,
    shared: Arc<Shared>,
    _end: DropGuard,
}

/// State of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    /// Name of the server.
    pub name: String,
    /// `new` before it was seen, `idle`, `connecting`, `connected`, `unavailable` or `unusable`.
    pub state: &'static str,
    /// The last failure to connect, or the problem of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Its tools, in order.
    pub tools: Vec<McpToolStatus>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolStatus {
    /// Name by which the model calls it.
    pub name: String,
    /// Name on the server.
    pub own_name: String,
    /// Its kind.
    pub kind: DefinitionKind,
    /// Description as the model reads it.
    pub description: String,
    /// Estimated size in a request, in tokens.
    pub tokens: usize,
    /// `true` if requests do not list it.
    pub is_deferred: bool,
    /// `true` if calls are refused until its changed or new definition is approved.
    pub is_withheld: bool,
    /// `true` if it was never approved, so the model does not know it.
    pub is_new: bool,
}

impl McpToolStatus {
    fn of(name: &str, definition: &Definition) -> Self {
        Self {
            name: name.to_owned(),
            own_name: definition.name.clone(),
            kind: definition.kind,
            description: definition.description.clone(),
            tokens: definition.tokens(),
            is_deferred: false,
            is_withheld: false,
            is_new: false,
        }
    }

    fn approved(tool: &McpTool) -> Self {
        Self {
            is_deferred: tool.is_deferred,
            is_withheld: tool.is_withheld(),
            ..Self::of(tool.name(), &tool.definition)
        }
    }

    fn new(name: &str, definition: &Definition) -> Self {
        Self {
            is_withheld: true,
            is_new: true,
            ..Self::of(name, definition)
        }
    }
}

impl McpServers {
    /// Reads the approved definitions. Starts nothing. A record that cannot be read is logged, and
    /// its servers count as new.
    #[must_use]
    pub fn new(settings: McpSettings) -> Self {
        let cancel = CancellationToken::new();
        let shared = Arc::new(Shared {
            record: Record::new(&settings.folder),
            grants: GrantFile::new(&settings.folder),
            opened: settings.opened,
            tasks: TaskTracker::new(),
            cancel: cancel.clone(),
            secrets: settings.secrets,
            names: settings.servers.keys().cloned().collect(),
            registries: Mutex::default(),
            room: Mutex::new(settings.token_budget),
        });
        let servers: Vec<Arc<Server>> = settings
            .servers
            .into_iter()
            .map(|(name, config)| Arc::new(Server::new(name, config, Arc::clone(&shared))))
            .collect();
        let servers = Self {
            servers,
            shared,
            _end: cancel.drop_guard(),
        };
        servers.adopt_records();
        servers
    }

    fn adopt_records(&self) {
        for server in &self.servers {
            if server.config.target().is_err() {
                continue;
            }
            match self.shared.record.server(&server.name, &server.config) {
                Ok(Some(record)) if !record.is_unseen() => {
                    server.adopt(record.into_comparison());
                }
                Ok(_) => {}
                Err(error) => {
                    let (server, error) = (&server.name, error.chain());
                    tracing::warn!(server, error, "could not read the approved MCP tools");
                }
            }
        }
    }

    /// Adds the tools to a registry, now and when servers offer more, as long as it exists.
    pub fn attach(&self, registry: &Arc<Registry>) {
        for tool in self.servers.iter().flat_map(|server| server.tools()) {
            register(registry, &tool);
        }
        let registries = self.shared.registries.lock();
        let mut registries = registries.unwrap_or_else(PoisonError::into_inner);
        registries.push(Arc::downgrade(registry));
    }

    /// Starts the servers whose tools are unknown, in the background. Needs a Tokio runtime.
    pub fn start(&self) {
        for server in &self.servers {
            if let Err(error) = server.config.target() {
                let (server, error) = (&server.name, error.chain());
                tracing::warn!(server, error, "an MCP server is left out");
                continue;
            }
            if server.is_known() {
                continue;
            }
            let (server, cancel) = (Arc::clone(server), self.shared.cancel.clone());
            self.shared.tasks.spawn(async move {
                cancel.run_until_cancelled(server.discover()).await;
            });
        }
    }

    /// Returns the state of all servers by name. Contacts none: failures of other processes are
    /// those that they recorded.
    #[must_use]
    pub fn status(&self) -> Vec<McpServerStatus> {
        self.servers.iter().map(|one| self.status_of(one)).collect()
    }

    fn status_of(&self, server: &Server) -> McpServerStatus {
        let recorded = self.shared.record.server(&server.name, &server.config);
        let recorded = recorded.ok().flatten().and_then(|record| record.failure);
        let (state, failure) = match (server.config.target(), server.state()) {
            (Err(error), _) => ("unusable", Some(error.chain())),
            (Ok(_), ("idle", _)) => match (recorded, server.is_known()) {
                (Some(failure), _) => ("unavailable", Some(failure)),
                (None, true) => ("idle", None),
                (None, false) => ("new", None),
            },
            (Ok(_), state) => state,
        };
        let (tools, new) = (server.tools(), server.new_tools());
        let new = new
            .iter()
            .map(|(name, definition)| McpToolStatus::new(name, definition));
        let tools = tools.iter().map(|tool| McpToolStatus::approved(tool));
        McpServerStatus {
            name: server.name.clone(),
            state,
            failure,
            tools: tools.chain(new).collect(),
        }
    }

    /// Connects to a server and returns its state.
    ///
    /// # Errors
    /// Returns [`McpError::UnknownServer`], an error of the configuration, or
    /// [`McpError::Unavailable`] with the reason.
    pub async fn connect(&self, name: &str) -> Result<McpServerStatus, McpError> {
        let server = self.find(name)?;
        server.config.target()?;
        server.session().await?;
        Ok(self.status_of(server))
    }

    /// Calls a tool of a server by its full or its own name, with the checks of every call.
    ///
    /// # Errors
    /// Returns [`McpError::UnknownServer`], [`McpError::UnknownTool`] or [`McpError::NewTool`]. A
    /// failed call is a result.
    pub async fn call(
        &self,
        name: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<ToolResult, McpError> {
        let server = self.find(name)?;
        let tools = server.tools();
        let is_meant = |one: &&Arc<McpTool>| one.name() == tool || one.definition.name == tool;
        let unknown = || {
            let new = server.new_tools();
            let is_new = new
                .iter()
                .any(|(full, one)| full == tool || one.name == tool);
            let (name, server) = (tool.to_owned(), name.to_owned());
            match is_new {
                true => McpError::NewTool { name, server },
                false => McpError::UnknownTool { name },
            }
        };
        let found = tools.iter().find(is_meant).ok_or_else(unknown)?;
        let registry = Registry::new();
        register(&registry, found);
        let call = ToolCall::new("test", found.name(), arguments.to_string());
        let context = ToolContext::detached("cli:direct");
        Ok(registry.run(&call, &context).await)
    }

    /// Approves the changed and new definitions of a server and returns the names of their tools on the
    /// server. Blocks briefly. Running processes use them after their next start.
    ///
    /// # Errors
    /// Returns [`McpError::UnknownServer`] or [`McpError::Record`].
    pub fn approve(&self, name: &str) -> Result<Vec<String>, McpError> {
        let server = self.find(name)?;
        self.shared.record.approve(name, &server.config)
    }

    /// Begins a login at a remote server: asks it how it is authorized, and listens for the answer of
    /// a browser.
    ///
    /// # Errors
    /// Returns [`McpError::UnknownServer`], an error of the configuration,
    /// [`McpError::Authorization`] if the server does not offer a login, or [`McpError::Url`] if it
    /// names an address that is refused.
    pub async fn begin_login(&self, name: &str) -> Result<McpLogin, McpError> {
        let config = &self.find(name)?.config;
        config.target()?;
        let url = config.login_url().ok_or_else(|| {
            let text = "a login is for servers with a url and without an Authorization header";
            McpError::Config(text.to_owned())
        })?;
        let headers = headers(config)?.into_iter().collect();
        let (grants, opened) = (self.shared.grants.clone(), &self.shared.opened);
        oauth::begin(name, &url, &config.oauth, headers, opened, grants).await
    }

    /// Removes the tokens of a server. Returns `true` if there were some. They stay valid at the
    /// authorization server until they end.
    ///
    /// # Errors
    /// Returns [`McpError::UnknownServer`], or [`McpError::Record`] if the file cannot be written.
    pub async fn logout(&self, name: &str) -> Result<bool, McpError> {
        self.find(name)?;
        self.shared.grants.remove(name).await
    }

    /// Ends all servers and waits for that, at most some seconds. Their processes are killed then.
    pub async fn close(&self) {
        self.shared.cancel.cancel();
        self.shared.tasks.close();
        let ended = tokio::time::timeout(SHUTDOWN, self.shared.tasks.wait()).await;
        if ended.is_err() {
            tracing::warn!("MCP servers did not end in time");
        }
    }

    fn find(&self, name: &str) -> Result<&Arc<Server>, McpError> {
        let found = self.servers.iter().find(|server| server.name == name);
        found.ok_or_else(|| McpError::UnknownServer {
            name: name.to_owned(),
        })
    }
}
