//! Prepares a home: configuration, workspace, templates.

use std::fmt;
use std::path::PathBuf;

use nanobot_config::{Config, ImportReport, Saved};
use serde_json::{Value, json};

use crate::assembly::assistant;
use crate::assembly::extensions::Extensions;
use crate::assembly::first_run::FirstRun;
use crate::assembly::older_tasks::OlderTasks;
use crate::assembly::settings::AgentDefaults;
use crate::{Runtime, RuntimeError};

/// What to do with a configuration that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnboardMode {
    /// Keep every value, add keys that are missing.
    Refresh,
    /// Begin anew with defaults; the old file is kept beside it.
    Overwrite,
}

/// What onboarding would read, keep, ignore and create. Nothing is written to make one.
#[derive(Debug)]
pub struct OnboardPlan {
    /// What is there.
    pub report: ImportReport,
    /// The configuration file exists.
    pub exists: bool,
    /// The workspace that is used or made.
    pub workspace: PathBuf,
    /// Jobs of an older layout that the first visit would import.
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

/// What onboarding did.
#[derive(Debug)]
pub struct OnboardReport {
    /// The configuration file.
    pub config_file: PathBuf,
    /// The copy of what was there before.
    pub backup: Option<PathBuf>,
    /// The file was written; `false` when nothing was missing.
    pub written: bool,
    /// The workspace.
    pub workspace: PathBuf,
    /// Files that were made in it.
    pub created: Vec<PathBuf>,
}

/// What [`onboard`] would do.
///
/// # Errors
/// [`RuntimeError::Config`].
pub fn plan_onboarding(config: &Config) -> Result<OnboardPlan, RuntimeError> {
    Ok(OnboardPlan {
        report: ImportReport::new(config)?,
        exists: config.has_file(),
        workspace: config.workspace()?,
        tasks: config
            .is_first_run()
            .then(|| OlderTasks::look(config))
            .flatten(),
    })
}

/// Writes the configuration and prepares the workspace it names. Before that, on the first visit,
/// `on_visit` is told what was found in a home of the Python program.
///
/// # Errors
/// [`RuntimeError::Config`] when the file cannot be written, [`RuntimeError::Workspace`].
pub async fn onboard(
    runtime: &Runtime,
    mode: OnboardMode,
    on_visit: impl FnOnce(&FirstRun),
) -> Result<OnboardReport, RuntimeError> {
    let config = runtime.config();
    if let Some(visit) = FirstRun::perform(config).await? {
        on_visit(&visit);
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
        Saved::Written { backup } => (true, backup),
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

/// What a new configuration says: the keys that people change.
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

/// A key whose default is nothing is left out: an empty `allowFrom` would mean nobody for ever.
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
