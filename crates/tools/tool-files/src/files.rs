//! All tool files of a workspace, kept up to date.
//!
//! Decision: a file is described when it is new or was changed, and never again: neither by the next
//! turn nor because a neighbour changed. A file that cannot be used has a reason and affects no other
//! one.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use nanobot_guard::PathPolicy;
use nanobot_sandbox::Mechanism;
use nanobot_tool::{Tool, ToolFeed};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::config::ToolFilesConfig;
use crate::confinement::Confinement;
use crate::describe::{Described, describe};
use crate::error::ToolFileError;
use crate::folder::{Fingerprint, Folder, ToolFile};
use crate::tool::{FileTool, Shared};

/// Time in which all new and changed files have to be loaded: a turn waits for it.
const LOAD_ALL: Duration = Duration::from_secs(60);
/// Maximum size of the definitions of all tools, in bytes of JSON: each request has them.
const MAX_DEFINITIONS: usize = 32 << 10;
/// Number of files that are loaded at a time.
const AT_A_TIME: usize = 4;
/// Time after which files that could not be loaded for lack of a sandbox or of Python are tried
/// again.
const RETRY: Duration = Duration::from_secs(60);

/// Settings of the tool files of a workspace.
#[derive(Debug, Clone)]
pub struct ToolFilesSettings {
    /// The configuration.
    pub config: ToolFilesConfig,
    /// The policy of the file tools, for the workspace.
    pub policy: PathPolicy,
    /// Names of built-in tools, which no file may take.
    pub reserved: BTreeSet<String>,
    /// A program whose `main` calls [`nanobot_sandbox::enter`]; `None` for this program.
    pub launcher: Option<PathBuf>,
    /// The mechanism of the sandbox; `None` for the best one of this system.
    pub mechanism: Option<Mechanism>,
    /// Time after its last call in which the process of a tool waits for the next one.
    pub idle: Duration,
}

impl ToolFilesSettings {
    /// Time after which an unused process ends.
    pub const IDLE: Duration = Duration::from_secs(60);

    /// Creates settings with this program as the launcher.
    #[must_use]
    pub fn new(config: ToolFilesConfig, policy: PathPolicy, reserved: BTreeSet<String>) -> Self {
        Self {
            config,
            policy,
            reserved,
            launcher: None,
            mechanism: None,
            idle: Self::IDLE,
        }
    }
}

/// The tools in files of a workspace. Dropping it and its tools ends all processes.
#[derive(Debug)]
pub struct ToolFiles {
    folder: Folder,
    reserved: BTreeSet<String>,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fingerprint: Option<Fingerprint>,
    /// Time at which files that were unavailable are tried again.
    retry_at: Option<Instant>,
    entries: Vec<Entry>,
}

/// A file as it was described last.
#[derive(Debug, Clone)]
struct Entry {
    file: ToolFile,
    findings: Vec<String>,
    tool: Result<Arc<FileTool>, ToolFileError>,
    /// The reason why the name of the tool is taken.
    conflict: Option<String>,
}

/// State of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ToolFileState {
    /// The assistant can call it.
    Loaded,
    /// It has to be changed.
    Refused,
    /// It is a script and not meant to be a tool.
    Ignored,
    /// It cannot run here and now.
    Unavailable,
}

/// A file as its author and the operator see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolFileStatus {
    /// Name of the file, or of the folder with the manifest.
    pub file: String,
    /// Its state.
    pub state: ToolFileState,
    /// Name of its tool, if it is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Description of its tool, if it is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The reason why it is not loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What the scan found in a loaded file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl ToolFiles {
    /// Creates the tools of a workspace. Reads and starts nothing.
    #[must_use]
    pub fn new(settings: ToolFilesSettings) -> Self {
        let confinement = Confinement::new(
            &settings.policy,
            settings.config,
            settings.launcher,
            settings.mechanism,
        );
        Self {
            folder: Folder::new(&settings.policy),
            reserved: settings.reserved,
            shared: Arc::new(Shared {
                confinement: Arc::new(confinement),
                tasks: TaskTracker::new(),
                idle: settings.idle,
            }),
            state: Mutex::default(),
        }
    }

    /// Returns the state of all files by name, after looking for changes.
    pub async fn status(&self) -> Vec<ToolFileStatus> {
        let mut state = self.state.lock().await;
        self.update(&mut state).await;
        state.entries.iter().map(Entry::status).collect()
    }

    async fn update(&self, state: &mut State) {
        let folder = self.folder.clone();
        let last = match state.retry_at {
            Some(retry_at) if retry_at <= Instant::now() => None,
            _ => state.fingerprint.clone(),
        };
        let look = tokio::task::spawn_blocking(move || {
            let fingerprint = folder.fingerprint();
            let is_changed = last.as_ref() != Some(&fingerprint);
            is_changed.then(|| (folder.read(), fingerprint))
        });
        let (files, fingerprint) = match look.await {
            Ok(Some(changed)) => changed,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "could not look for tool files");
                return;
            }
        };
        // Nothing is known until the end: this may be cancelled.
        state.fingerprint = None;
        let mut before: HashMap<String, Entry> = state
            .entries
            .drain(..)
            .map(|entry| (entry.file.name.clone(), entry))
            .collect();
        let deadline = Instant::now() + LOAD_ALL;
        let described = stream::iter(files.into_iter().map(|file| {
            let known = before.remove(&file.name);
            self.entry(file, known, deadline)
        }))
        .buffered(AT_A_TIME);
        state.entries = described.collect().await;
        self.find_conflicts(&mut state.entries);
        let is_unavailable =
            |entry: &Entry| matches!(entry.tool, Err(ToolFileError::Unavailable(_)));
        let has_unavailable = state.entries.iter().any(is_unavailable);
        state.retry_at = has_unavailable.then(|| Instant::now() + RETRY);
        state.fingerprint = Some(fingerprint);
    }

    /// Describes a file, unless that was done before.
    async fn entry(&self, file: ToolFile, known: Option<Entry>, deadline: Instant) -> Entry {
        let known = match known {
            Some(entry) if entry.file == file && entry.is_settled() => return entry,
            Some(entry) => entry.tool,
            None => Err(ToolFileError::Refused(String::new())),
        };
        let Described { findings, outcome } = describe(&self.shared, &file, deadline).await;
        let tool = outcome.map(|(code, definition)| match &known {
            Ok(known) if known.takes(&definition, code.clone()) => Arc::clone(known),
            _ => Arc::new(FileTool::new(definition, code, &self.shared)),
        });
        match (&tool, known) {
            (Ok(_), _) => tracing::info!(file = %file.name, "a tool file was loaded"),
            (Err(ToolFileError::NotATool), _) => {}
            (Err(error), Err(known)) if *error == known => {}
            (Err(error), _) => {
                tracing::warn!(file = %file.name, %error, "a tool file was not loaded");
            }
        }
        Entry {
            file,
            findings,
            tool,
            conflict: None,
        }
    }

    /// Finds tools whose name is that of a built-in tool or of a file before them, and those for
    /// which requests have no room.
    fn find_conflicts(&self, entries: &mut [Entry]) {
        let (mut taken, mut size) = (HashMap::new(), 0);
        for entry in entries {
            let Ok(tool) = &entry.tool else { continue };
            let name = tool.spec().name.to_string();
            let own_size = tool.spec().description.len() + tool.spec().parameters.to_string().len();
            let conflict = if self.reserved.contains(&name) {
                Some(format!("its tool has the name of a built-in one, {name}"))
            } else if let Some(other) = taken.get(&name) {
                Some(format!(
                    "its tool has the same name as that of {other}, {name}"
                ))
            } else if size + own_size > MAX_DEFINITIONS {
                Some(format!(
                    "the definitions of all tools in files exceed {} KiB",
                    MAX_DEFINITIONS >> 10
                ))
            } else {
                taken.insert(name, entry.file.name.clone());
                size += own_size;
                None
            };
            if let Some(problem) = &conflict
                && entry.conflict != conflict
            {
                tracing::warn!(file = %entry.file.name, problem, "a tool file was not loaded");
            }
            entry.conflict = conflict;
        }
    }
}

#[async_trait]
impl ToolFeed for ToolFiles {
    async fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut state = self.state.lock().await;
        self.update(&mut state).await;
        let loaded = state.entries.iter().filter_map(Entry::loaded);
        loaded
            .map(|tool| Arc::clone(tool) as Arc<dyn Tool>)
            .collect()
    }
}

impl Entry {
    /// `true` if describing the same file again cannot give another result.
    fn is_settled(&self) -> bool {
        !matches!(self.tool, Err(ToolFileError::Unavailable(_)))
    }

    /// Returns the tool, if the assistant can call it.
    fn loaded(&self) -> Option<&Arc<FileTool>> {
        let tool = self.tool.as_ref().ok()?;
        self.conflict.is_none().then_some(tool)
    }

    fn status(&self) -> ToolFileStatus {
        let spec = self.loaded().map(|tool| tool.spec());
        let state = match &self.tool {
            Ok(_) if spec.is_some() => ToolFileState::Loaded,
            Err(ToolFileError::Unavailable(_)) => ToolFileState::Unavailable,
            Err(ToolFileError::NotATool) => ToolFileState::Ignored,
            Ok(_) | Err(ToolFileError::Refused(_) | ToolFileError::Scan(_)) => {
                ToolFileState::Refused
            }
        };
        let problem = self.tool.as_ref().err().map(ToString::to_string);
        ToolFileStatus {
            file: self.file.name.clone(),
            state,
            tool: spec.map(|spec| spec.name.to_string()),
            description: spec.map(|spec| spec.description.clone()),
            problem: problem.or_else(|| self.conflict.clone()),
            findings: self.findings.clone(),
        }
    }
}
