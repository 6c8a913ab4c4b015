//! Prepares a home: configuration, workspace, templates.

use std::fmt;
use std::path::PathBuf;

use nanobot_config::{Config, ConfigError, ImportReport, SavedConfig};
use nanobot_context::fill_profile;
use serde_json::{Value, json};

use crate::assembly::assistant;
use crate::assembly::extensions::Extensions;
use crate::assembly::first_run::FirstRun;
use crate::assembly::older_tasks::OlderTasks;
use crate::{Runtime, RuntimeError, SetupChoices};

/// Sections of a new file, in this order: a user sees where things go.
const SKELETON: [&str; 3] = ["agents.defaults", "providers", "channels"];

/// Handling of an existing configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnboardMode {
    /// Keep every value, write older keys as today's, and add the missing keys of the channels that
    /// the file has.
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
    /// Handling of that file.
    pub mode: OnboardMode,
    /// The workspace to use or create.
    pub workspace: PathBuf,
    /// Jobs of an older layout that the first run would import.
    pub tasks: Option<OlderTasks>,
}

impl fmt::Display for OnboardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.report.config_file.display();
        match (self.exists, self.mode) {
            (false, _) => write!(f, "{file} would be created.")?,
            (true, OnboardMode::Refresh) => {
                self.write_report(f)?;
                write!(
                    f,
                    "Missing keys of its channels would be added; the file is copied first."
                )?;
            }
            (true, OnboardMode::Overwrite) => self.write_replacement(f)?,
        }
        write!(
            f,
            "\nWorkspace: {} (missing files would be created, none changed)",
            self.workspace.display()
        )
    }
}

impl OnboardPlan {
    fn write_report(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        if let Some(tasks) = &self.tasks {
            writeln!(f, "  {tasks}")?;
        }
        writeln!(f)
    }

    fn write_replacement(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        let file = report.config_file.display();
        let keys = [&report.read, &report.kept, &report.ignored].map(|keys| keys.iter());
        let dropped: Vec<&str> = keys.into_iter().flatten().map(String::as_str).collect();
        write!(
            f,
            "{file} would be replaced by a new file; the old one is copied first."
        )?;
        if !dropped.is_empty() {
            write!(f, "\nNot in the new file: {}", dropped.join(", "))?;
        }
        if let Some(tasks) = &self.tasks {
            write!(f, "\n{tasks}")?;
        }
        let old = &report.contents.workspace;
        if *old != self.workspace {
            write!(f, "\nThe workspace {} stays as it is.", old.display())?;
        }
        Ok(())
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
    /// The schema of the configuration file, if it was written. A failure costs only the help of
    /// editors.
    pub schema: Result<Option<PathBuf>, ConfigError>,
}

/// Returns what [`onboard`] would do in this mode.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the configuration cannot be used.
pub fn plan_onboarding(runtime: &Runtime, mode: OnboardMode) -> Result<OnboardPlan, RuntimeError> {
    let config = runtime.config();
    Ok(OnboardPlan {
        report: ImportReport::new(config)?,
        exists: config.has_file(),
        mode,
        workspace: match mode {
            OnboardMode::Refresh => config.workspace()?,
            // The new file does not name a workspace.
            OnboardMode::Overwrite => runtime.with_file_text("{}")?.config().workspace()?,
        },
        tasks: config
            .is_first_run()
            .then(|| OlderTasks::plan(config))
            .flatten(),
    })
}

/// Writes the configuration with these choices, and prepares the workspace that it names. On the
/// first run on a home of the Python program, calls `on_first_run` with the findings before that.
///
/// Decision: a new file has the empty sections that users fill in, and the choices. Defaults are
/// not written: they would hide later improvements, and `nanobot config` lists them.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the file cannot be written, [`RuntimeError::Workspace`] if
/// the workspace cannot be used.
pub async fn onboard(
    runtime: &Runtime,
    mode: OnboardMode,
    choices: &SetupChoices,
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
        draft.name_schema();
    }
    if mode == OnboardMode::Overwrite || !config.has_file() {
        for section in SKELETON {
            draft.fill(section, &json!({}))?;
        }
    } else {
        for (key, section) in channel_keys(&draft.text(), runtime.extensions()) {
            draft.fill(&key, &section)?;
        }
    }
    choices.apply(&mut draft)?;
    let saved = draft.save(chrono::Utc::now())?;
    let written_config = runtime.reload()?;
    let workspace = match mode {
        // The file does not name the workspace any more.
        OnboardMode::Overwrite => written_config.config().workspace()?,
        OnboardMode::Refresh => config.workspace()?,
    };
    let created = assistant::prepare(&workspace)?;
    if choices.user.is_some() || choices.zone.is_some() {
        let zone = choices.zone.clone().unwrap_or_else(host_zone_name);
        fill_profile(&workspace, choices.user.as_deref(), &zone)?;
    }
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
        schema: written_config.config().refresh_schema(),
    })
}

fn root_keys(text: &str) -> Vec<String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(root)) => root.into_iter().map(|(key, _)| key).collect(),
        _ => Vec::new(),
    }
}

/// Returns the sections of the channels in a file, with the defaults of their platforms. The Python
/// program does the same, and its users read there which keys a channel has.
fn channel_keys(text: &str, extensions: &Extensions) -> Vec<(String, Value)> {
    let file: Value = serde_json::from_str(text).unwrap_or_default();
    let channels = file.get("channels").and_then(Value::as_object);
    let defaults = extensions.channel_defaults();
    let section = |(name, written): (&String, &Value)| {
        let kind = written
            .as_object()?
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or(name);
        let (_, section) = defaults.iter().find(|(known, _)| *known == kind)?;
        Some((format!("channels.{name}"), without_nulls(section.clone())))
    };
    channels.into_iter().flatten().filter_map(section).collect()
}

/// `true` if `USER.md` is missing or still its template, so that answers may be written into it.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the workspace setting cannot be read.
pub fn has_open_profile(config: &Config) -> Result<bool, RuntimeError> {
    Ok(nanobot_context::is_profile_open(&config.workspace()?))
}

fn host_zone_name() -> String {
    nanobot_cron::host_zone().name().to_owned()
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
