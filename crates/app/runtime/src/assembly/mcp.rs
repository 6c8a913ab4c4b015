//! The MCP servers of the configuration.
//!
//! Without the feature `mcp`, their settings are kept and not read, and there are no such tools.

use std::sync::Arc;

use nanobot_config::{Config, ConfigError, Schema};
use nanobot_redact::Secrets;
use nanobot_tool::Registry;

use crate::RuntimeError;

/// The servers of an assistant. Dropping all clones ends them.
#[derive(Clone, Debug)]
pub(crate) struct Mcp {
    #[cfg(feature = "mcp")]
    pub(crate) servers: Arc<nanobot_mcp::McpServers>,
}

#[cfg(feature = "mcp")]
impl Mcp {
    /// Reads the configuration and the approved definitions. Starts nothing.
    pub(crate) fn of(config: &Config, secrets: &Secrets) -> Result<Self, RuntimeError> {
        let shared: nanobot_mcp::McpConfig = config.section("tools")?;
        let tools: nanobot_tools::ToolsConfig = config.section("tools")?;
        let settings = nanobot_mcp::McpSettings {
            servers: config.section("tools.mcpServers")?,
            token_budget: shared.mcp_token_budget,
            folder: config.paths().data_dir.clone(),
            secrets: secrets.clone(),
            // The web tools report an unusable entry.
            opened: tools.opened_networks().unwrap_or_default(),
        };
        Ok(Self {
            servers: Arc::new(nanobot_mcp::McpServers::new(settings)),
        })
    }

    /// Adds the tools to a registry, now and later.
    pub(crate) fn attach(&self, registry: &Arc<Registry>) {
        self.servers.attach(registry);
    }

    /// Starts the servers that were never seen, in the background. Needs a Tokio runtime.
    pub(crate) fn start(&self) {
        self.servers.start();
    }

    /// Ends all servers.
    pub(crate) async fn close(&self) {
        self.servers.close().await;
    }
}

#[cfg(not(feature = "mcp"))]
impl Mcp {
    pub(crate) fn of(_config: &Config, _secrets: &Secrets) -> Result<Self, RuntimeError> {
        Ok(Self {})
    }

    pub(crate) fn attach(&self, _registry: &Arc<Registry>) {}

    pub(crate) fn start(&self) {}

    pub(crate) async fn close(&self) {
        std::future::ready(()).await;
    }
}

/// Returns the tokens of logins.
#[cfg(feature = "mcp")]
pub(crate) fn tokens(config: &Config) -> Vec<String> {
    nanobot_mcp::known_tokens(&config.paths().data_dir)
}

/// Returns nothing: this build makes no logins.
#[cfg(not(feature = "mcp"))]
pub(crate) fn tokens(_config: &Config) -> Vec<String> {
    Vec::new()
}

/// Adds the keys of servers.
#[cfg(feature = "mcp")]
pub(crate) fn with_keys(schema: Schema) -> Result<Schema, ConfigError> {
    use nanobot_mcp::{McpConfig, McpServerConfig};

    use crate::assembly::section_schema::json_schema;

    Ok(schema
        .section("tools", &McpConfig::default())?
        .describe("tools", json_schema::<McpConfig>)
        .map("tools.mcpServers", &McpServerConfig::default())?
        .describe("tools.mcpServers.*", json_schema::<McpServerConfig>))
}

/// Adds no keys.
#[cfg(not(feature = "mcp"))]
pub(crate) fn with_keys(schema: Schema) -> Result<Schema, ConfigError> {
    Ok(schema)
}
