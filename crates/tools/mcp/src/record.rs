//! The file of approved definitions, `mcp.json` in the data folder.
//!
//! Decision: the definitions that a server offers first are approved. They are kept in full: a start
//! lists the approved tools without starting any server, and the list of tools, part of the prompt
//! cache, is the same after a restart. Changed and new definitions are kept beside the approved ones
//! until the operator approves them. An approved definition that disappears is kept as well: if it
//! returns unchanged, it needs no second approval, and a server cannot replace it by withdrawing it
//! first. Several processes may change the file, so each change reads it under a lock.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use nanobot_disk::{Durability, FileDraft, LocalDisk, lock_beside, replace_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::McpError;
use crate::config::McpServerConfig;
use crate::definition::{Comparison, Definition};

/// Maximum size of the file, in bytes. A larger one is refused.
const MAX_FILE: u64 = 64 << 20;

/// What is known about one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerRecord {
    /// Digest of the command or address that the definitions belong to.
    pub(crate) target: String,
    /// The approved definitions, in the order in which requests list them.
    pub(crate) approved: Vec<Definition>,
    /// Changed definitions that wait for approval.
    pub(crate) changed: Vec<Definition>,
    /// New definitions that wait for approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) new: Vec<Definition>,
    /// Approved definitions that the server did not offer last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) absent: Vec<Definition>,
    /// The last failure to connect; `None` after a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

impl ServerRecord {
    /// `true` if the server has never offered anything.
    pub(crate) fn is_unseen(&self) -> bool {
        [&self.approved, &self.absent, &self.new]
            .into_iter()
            .all(Vec::is_empty)
    }

    /// Returns the definitions as far as they were seen.
    pub(crate) fn into_comparison(self) -> Comparison {
        Comparison {
            used: self.approved,
            changed: self.changed,
            new: self.new,
        }
    }

    /// Takes over what the server offers now.
    fn update(&mut self, offered: &[Definition]) -> Comparison {
        if self.is_unseen() {
            self.approved = offered.to_vec();
        }
        let mut known = std::mem::take(&mut self.approved);
        known.append(&mut self.absent);
        let comparison = Comparison::of(&known, offered);
        known.retain(|one| !comparison.used.contains(one));
        self.absent = known;
        self.approved.clone_from(&comparison.used);
        self.changed.clone_from(&comparison.changed);
        self.new.clone_from(&comparison.new);
        self.failure = None;
        comparison
    }

    /// Approves all definitions that wait, and returns their names.
    fn approve(&mut self) -> Vec<String> {
        let changed = std::mem::take(&mut self.changed);
        let new = std::mem::take(&mut self.new);
        let waiting = changed.iter().chain(&new);
        let names = waiting.map(|one| one.name.clone()).collect();
        for now in changed {
            if let Some(known) = self.approved.iter_mut().find(|one| one.key() == now.key()) {
                *known = now;
            }
        }
        self.approved.extend(new);
        names
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    servers: BTreeMap<String, ServerRecord>,
}

/// The file. All methods block; call them on a thread that may block.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    path: PathBuf,
}

impl Record {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join("mcp.json"),
        }
    }

    /// Returns the record of a server; `None` if there is none for its present target.
    pub(crate) fn server(
        &self,
        name: &str,
        config: &McpServerConfig,
    ) -> Result<Option<ServerRecord>, McpError> {
        let mut content = self.read()?;
        let found = content.servers.remove(name);
        Ok(found.filter(|record| record.target == digest(config)))
    }

    /// Compares the offered definitions with the approved ones, records the result and returns it.
    pub(crate) fn compare(
        &self,
        name: &str,
        config: &McpServerConfig,
        offered: &[Definition],
    ) -> Result<Comparison, McpError> {
        self.change(name, config, |record| record.update(offered))
    }

    /// Records a failure to connect.
    pub(crate) fn fail(
        &self,
        name: &str,
        config: &McpServerConfig,
        failure: &str,
    ) -> Result<(), McpError> {
        self.change(name, config, |record| {
            record.failure = Some(failure.to_owned());
        })
    }

    /// Approves the changed and new definitions of a server and returns their names.
    pub(crate) fn approve(
        &self,
        name: &str,
        config: &McpServerConfig,
    ) -> Result<Vec<String>, McpError> {
        self.change(name, config, ServerRecord::approve)
    }

    fn change<T>(
        &self,
        name: &str,
        config: &McpServerConfig,
        change: impl FnOnce(&mut ServerRecord) -> T,
    ) -> Result<T, McpError> {
        let _lock = lock_beside(&self.path).map_err(|source| self.error(source))?;
        let mut content = self.read()?;
        let record = content.servers.entry(name.to_owned()).or_default();
        let target = digest(config);
        if record.target != target {
            *record = ServerRecord {
                target,
                ..ServerRecord::default()
            };
        }
        let before = record.clone();
        let result = change(record);
        if *record == before {
            return Ok(result);
        }
        let text = serde_json::to_vec(&content).map_err(|error| self.error(error.into()))?;
        let (draft, durability) = (FileDraft::Random, Durability::Disk);
        replace_file(&LocalDisk, &self.path, &text, draft, durability)
            .map_err(|source| self.error(source))?;
        Ok(result)
    }

    /// Waits for other processes that change the file.
    fn read(&self) -> Result<Content, McpError> {
        let text = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
            Ok(file) if file.len() > MAX_FILE => Err(io::ErrorKind::FileTooLarge.into()),
            _ => std::fs::read(&self.path),
        };
        let content = text.and_then(|text| serde_json::from_slice(&text).map_err(io::Error::from));
        content.map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> McpError {
        McpError::Record {
            path: self.path.clone(),
            source,
        }
    }
}

/// Returns the digest of what identifies a server: its command and its address. Variables and
/// headers are not part of it, so a new token does not need a new approval.
fn digest(config: &McpServerConfig) -> String {
    let parts = (&config.command, &config.args, &config.url, &config.cwd);
    let text = serde_json::to_vec(&parts).unwrap_or_default();
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
