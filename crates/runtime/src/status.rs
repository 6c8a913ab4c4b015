//! How a home stands, without asking any model.

use std::fmt;
use std::path::PathBuf;

use nanobot_config::Config;
use nanobot_tools::ToolsConfig;
use serde::Serialize;

use crate::{RuntimeError, model, platforms, session_store};

/// A path and whether something is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The path.
    pub path: PathBuf,
    /// Something is there.
    pub exists: bool,
}

/// A provider of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// Its name for people.
    pub label: String,
    /// What is set: a key, an address, or nothing.
    pub state: String,
}

/// A channel of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelStatus {
    /// Its name.
    pub name: String,
    /// It is switched on.
    pub enabled: bool,
    /// This build knows its platform.
    pub known: bool,
}

/// How a home stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The version of this program.
    pub version: String,
    /// The configuration file.
    pub config: Place,
    /// The workspace.
    pub workspace: Place,
    /// Who would answer, as far as the configuration says.
    pub model: String,
    /// Providers with something set.
    pub providers: Vec<ProviderStatus>,
    /// Channels.
    pub channels: Vec<ChannelStatus>,
    /// Sessions in the workspace.
    pub sessions: usize,
    /// What is less safe than it could be.
    pub warnings: Vec<String>,
}

impl Status {
    /// Looks at a home.
    ///
    /// # Errors
    /// [`RuntimeError::Config`].
    pub async fn of(config: &Config) -> Result<Self, RuntimeError> {
        let workspace = config.workspace()?;
        let config_file = config.paths().config_file.clone();
        let sessions = session_store(config)?.list().await.map(|list| list.len()).unwrap_or_default();
        let tools: ToolsConfig = config.section("tools")?;
        let mut warnings: Vec<String> = config.findings().iter().map(ToString::to_string).collect();
        if !tools.restrict_to_workspace {
            warnings.push("tools.restrictToWorkspace is false: tools may read and write files everywhere".to_owned());
        }
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: Place { exists: config_file.exists(), path: config_file },
            workspace: Place { exists: workspace.exists(), path: workspace },
            model: model::describe(config)?,
            providers: model::providers(config)?,
            channels: channels(config)?,
            sessions,
            warnings,
        })
    }
}

fn channels(config: &Config) -> Result<Vec<ChannelStatus>, RuntimeError> {
    let registry = platforms::registry();
    let mut channels = Vec::new();
    for name in config.names("channels")? {
        let section: serde_json::Value = config.section(&format!("channels.{name}"))?;
        let kind = section.get("kind").and_then(|kind| kind.as_str()).unwrap_or(&name);
        let enabled = section.get("enabled").and_then(serde_json::Value::as_bool).unwrap_or(false);
        let known = registry.kinds().any(|other| other == kind);
        channels.push(ChannelStatus { name, enabled, known });
    }
    Ok(channels)
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |there: bool| if there { "✓" } else { "✗" };
        writeln!(f, "🐈 nanobot {}", self.version)?;
        writeln!(f, "Config: {} {}", self.config.path.display(), mark(self.config.exists))?;
        writeln!(f, "Workspace: {} {}", self.workspace.path.display(), mark(self.workspace.exists))?;
        writeln!(f, "Model: {}", self.model)?;
        for provider in &self.providers {
            writeln!(f, "{}: {}", provider.label, provider.state)?;
        }
        for channel in &self.channels {
            let state = match (channel.enabled, channel.known) {
                (true, true) => "enabled",
                (true, false) => "enabled, but this build does not know its platform",
                (false, _) => "off",
            };
            writeln!(f, "Channel {}: {state}", channel.name)?;
        }
        write!(f, "Sessions: {}", self.sessions)?;
        for warning in &self.warnings {
            write!(f, "\nWarning: {warning}")?;
        }
        Ok(())
    }
}
