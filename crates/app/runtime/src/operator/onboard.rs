//! Prepares a home: configuration, workspace, templates.

use std::fmt;
use std::path::PathBuf;

use nanobot_config::{Config, ImportReport, SavedConfig};
use serde_json::{Value, json};

use crate::assembly::assistant;
use crate::assembly::extensions::Extensions;
use crate::assembly::first_run::FirstRun;
use crate::assembly::older_tasks::OlderTasks;
use crate::assembly::settings::AgentDefaults;
use crate::{Runtime, RuntimeError};

/// Handling of an existing configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnboardMode {
    /// Keep every value and add missing keys.
    Refresh,
    /// Start with the defaults; the old file is kept as a backup.
    Overwrite,
}

/// Plan of an onboarding. Making one writes nothing.
#[derive(Debug)]
pub struct OnboardPlan {
    /// Findings in the home.
    pub report: ImportReport,
    /// Set when the configuration file exists.
    pub exists: bool,
    /// The workspace to use or create.
    pub workspace: PathBuf,
    /// Jobs of an older layout that the first run would import.
    pub tasks: Option<OlderTasks>,
}

impl fmt::Display for OnboardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.exists {
            write!(f, "{}", self.report)?;
            if let Some(tasks) = &self.tasks {
                writeln!(f, "  {tasks}")?;
            }
            writeln!(f)?;
            write!(f, "Missing keys would be added; the file is copied first.")?;
        } else {
            write!(f, "{} would be created.", self.report.config_file.display())?;
        }
        write!(
            f,
            "\nWorkspace: {} (missing files would be created, none changed)",
            self.workspace.display()
        )
    }
}

/// Result of an onboarding.
#[derive(Debug)]
pub struct OnboardReport {
    /// The configuration file.
    pub config_file: PathBuf,
    /// The backup of the old file.
    pub backup: Option<PathBuf>,
    /// `true` if the file was written, `false` if nothing was missing.
    pub written: bool,
    /// The workspace.
    pub workspace: PathBuf,
    /// Files that were created in it.
    pub created: Vec<PathBuf>,
}

/// Returns what [`onboard`] would do.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the configuration cannot be used.
pub fn plan_onboarding(config: &Config) -> Result<OnboardPlan, RuntimeError> {
    Ok(OnboardPlan {
        report: ImportReport::new(config)?,
        exists: config.has_file(),
        workspace: config.workspace()?,
        tasks: config
            .is_first_run()
            .then(|| OlderTasks::plan(config))
            .flatten(),
    })
}

/// Writes the configuration and prepares the workspace that it names. On the first run on a home of
/// the Python program, calls `on_first_run` with the findings before that.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the file cannot be written, [`RuntimeError::Workspace`] if
/// the workspace cannot be used.
pub async fn onboard(
    runtime: &Runtime,
    mode: OnboardMode,
    on_first_run: impl FnOnce(&FirstRun),
) -> Result<OnboardReport, RuntimeError> {
    let config = runtime.config();
    if let Some(first_run) = FirstRun::perform(config).await? {
        on_first_run(&first_run);
    }
    let mut draft = config.draft();
    if mode == OnboardMode::Overwrite {
        for key in root_keys(&draft.text()) {
            draft.remove(&key)?;
        }
    }
    for (key, value) in defaults(runtime.extensions()) {
        draft.fill(&key, &value)?;
    }
    let saved = draft.save(chrono::Utc::now())?;
    let workspace = config.workspace()?;
    let created = assistant::prepare(&workspace)?;
    let (written, backup) = match saved {
        SavedConfig::Written { backup } => (true, backup),
        _ => (false, None),
    };
    let config_file = config.paths().config_file.clone();
    Ok(OnboardReport {
        config_file,
        backup,
        written,
        workspace,
        created,
    })
}

fn root_keys(text: &str) -> Vec<String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(root)) => root.into_iter().map(|(key, _)| key).collect(),
        _ => Vec::new(),
    }
}

/// Returns the keys of a new configuration: those that users usually change.
fn defaults(extensions: &Extensions) -> Vec<(String, Value)> {
    let agent = AgentDefaults::default();
    let mut sections = vec![
        (
            "agents.defaults".to_owned(),
            json!({
                "model": agent.model, "provider": agent.provider, "maxTokens": agent.max_tokens,
                "temperature": 0.1, "maxToolIterations": agent.max_tool_iterations,
            }),
        ),
        ("providers.anthropic".to_owned(), json!({ "apiKey": "" })),
        ("providers.openai".to_owned(), json!({ "apiKey": "" })),
        ("providers.openrouter".to_owned(), json!({ "apiKey": "" })),
        ("tools".to_owned(), json!({ "restrictToWorkspace": true })),
    ];
    let channels = extensions
        .channel_defaults()
        .into_iter()
        .map(|(kind, section)| (format!("channels.{kind}"), without_nulls(section)));
    sections.extend(channels);
    sections
}

/// Removes keys whose default is null: as an empty list, `allowFrom` would lock everyone out.
fn without_nulls(section: Value) -> Value {
    match section {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect(),
        ),
        other => other,
    }
}
