//! Reports what a home of the Python program contains, before the first write into it.
//!
//! This only inspects: directory entries are counted, and only the job store is opened.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fold::Values;
use crate::schema_file::SCHEMA_KEY;
use crate::{Config, ConfigError, ConfigFinding, Paths, fold};

/// Content of the data directory and the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HomeContents {
    /// The inspected workspace.
    pub workspace: PathBuf,
    /// Session files of the workspace.
    pub sessions: usize,
    /// Session files in the two other locations that releases of the Python program used.
    pub older_sessions: usize,
    /// Names of the files in the workspace's `memory` directory, sorted.
    pub memory: Vec<String>,
    /// Names of the workspace's skills, sorted.
    pub skills: Vec<String>,
    /// Number of scheduled jobs; `None` if there is a job store that cannot be read.
    pub cron_jobs: Option<usize>,
}

impl HomeContents {
    /// Inspects a home. Anything that cannot be read counts as missing, except the job store.
    #[must_use]
    pub fn scan(paths: &Paths, workspace: &Path) -> Self {
        let is_session = |path: &Path| path.extension().is_some_and(|ending| ending == "jsonl");
        let count = |directory: &Path| entries(directory).filter(|path| is_session(path)).count();
        let own = workspace.join("sessions");
        let by_workspace: usize = entries(&paths.data_dir.join("sessions"))
            .filter(|directory| directory.is_dir() && *directory != own)
            .map(|directory| count(&directory))
            .sum();
        let legacy = if paths.legacy_sessions == own {
            0
        } else {
            count(&paths.legacy_sessions)
        };
        let stores = [
            paths.cron_store.clone(),
            workspace.join("cron").join("jobs.json"),
        ];
        Self {
            workspace: workspace.to_path_buf(),
            sessions: count(&own),
            older_sessions: legacy + by_workspace,
            memory: names(entries(&workspace.join("memory")).filter(|path| path.is_file())),
            skills: names(
                entries(&workspace.join("skills")).filter(|path| path.join("SKILL.md").is_file()),
            ),
            cron_jobs: stores.iter().map(|store| jobs_in(store)).sum(),
        }
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

fn names(paths: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let mut names: Vec<String> = paths
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

fn jobs_in(store: &Path) -> Option<usize> {
    if !store.exists() {
        return Some(0);
    }
    let store: Value = serde_json::from_slice(&fs::read(store).ok()?).ok()?;
    Some(store.get("jobs")?.as_array()?.len())
}

/// Report on the import of a configuration and its home. `Display` writes the report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// The configuration file.
    pub config_file: PathBuf,
    /// Keys that are in the file and take effect.
    pub read: Vec<String>,
    /// Unknown keys, which stay in the file.
    pub kept: Vec<String>,
    /// Keys of the Python program that have no effect here. They stay in the file, unless
    /// `findings` names the key that replaces them.
    pub ignored: Vec<String>,
    /// Older keys, each with the key that it is read as.
    pub migrated: Vec<(String, String)>,
    /// All findings about the file, with lines.
    pub findings: Vec<ConfigFinding>,
    /// Sessions, memory, skills and jobs.
    pub contents: HomeContents,
}

impl ImportReport {
    /// Creates the report for a loaded configuration and its home.
    ///
    /// # Errors
    /// Returns an error if the workspace setting cannot be read.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut report = Self {
            config_file: config.paths().config_file.clone(),
            read: Vec::new(),
            kept: Vec::new(),
            ignored: Vec::new(),
            migrated: Vec::new(),
            findings: config.findings().to_vec(),
            contents: HomeContents::scan(config.paths(), &config.workspace()?),
        };
        for finding in config.findings() {
            match finding {
                ConfigFinding::UnknownKey {
                    key,
                    origin: crate::ValueOrigin::File { .. },
                    ..
                } => report.kept.push(key.clone()),
                ConfigFinding::NotRead { key, .. } | ConfigFinding::Superseded { key, .. } => {
                    report.ignored.push(key.clone());
                }
                ConfigFinding::Migrated { from, to, .. } => {
                    report.migrated.push((from.clone(), to.clone()));
                }
                ConfigFinding::UnknownKey { .. }
                | ConfigFinding::EmptyFile { .. }
                | ConfigFinding::Repeated { .. }
                | ConfigFinding::Outdated { .. } => {}
            }
        }
        let Values { places, tree, .. } = fold::values(&config.root, &config.shape);
        for path in places.keys() {
            let value = crate::layer::value_at(&tree, path.parts());
            let is_leaf = value.is_some_and(|value| !value.is_object());
            let key = path.to_string();
            let is_elsewhere =
                |other: &String| key == *other || key.starts_with(&format!("{other}."));
            let is_read = config.is_read(path) && key != SCHEMA_KEY;
            if is_leaf && is_read && !report.ignored.iter().any(is_elsewhere) {
                report.read.push(key);
            }
        }
        Ok(report)
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "Configuration {}", self.config_file.display())?;
        list(formatter, "read", &self.read)?;
        list(formatter, "kept, unknown", &self.kept)?;
        list(formatter, "ignored", &self.ignored)?;
        let moves: Vec<String> = self
            .migrated
            .iter()
            .map(|(from, to)| format!("{from} → {to}"))
            .collect();
        list(formatter, "migrated", &moves)?;
        for finding in &self.findings {
            writeln!(formatter, "  {finding}")?;
        }
        let contents = &self.contents;
        writeln!(formatter, "Workspace {}", contents.workspace.display())?;
        write!(formatter, "  sessions: {}", contents.sessions)?;
        if contents.older_sessions > 0 {
            write!(formatter, ", in older places: {}", contents.older_sessions)?;
        }
        writeln!(formatter)?;
        list(formatter, "memory", &contents.memory)?;
        list(formatter, "skills", &contents.skills)?;
        match contents.cron_jobs {
            Some(jobs) => writeln!(formatter, "  scheduled jobs: {jobs}"),
            None => writeln!(formatter, "  scheduled jobs: the job store cannot be read"),
        }
    }
}

fn list(formatter: &mut fmt::Formatter<'_>, title: &str, items: &[String]) -> fmt::Result {
    let shown = if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    };
    writeln!(formatter, "  {title}: {shown}")
}
