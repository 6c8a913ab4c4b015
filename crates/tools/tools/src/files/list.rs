//! `list_dir`.

use std::{ffi::OsStr, io, path::Path, sync::Arc};

use nanobot_guard::{BeneathEntry, PathPolicy};
use nanobot_tool::ToolContext;
use nanobot_types::{Effect, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::with_policy;
use crate::operation::{Operation, answer};

/// Generated folders and files that are left out of listings.
const IGNORED: [&str; 13] = [
    ".git",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    "dist",
    "build",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".coverage",
    "htmlcov",
];

/// Returns `true` for a generated folder or file that listings and searches leave out.
pub(super) fn is_ignored(name: &OsStr) -> bool {
    IGNORED.iter().any(|ignored| name == *ignored)
}

/// Maximum number of entries that a recursive listing counts.
const MAX_COUNTED: usize = 100_000;

#[derive(Debug)]
pub(crate) struct ListDir {
    policy: Arc<PathPolicy>,
}

#[derive(Deserialize)]
pub(crate) struct ListArguments {
    path: String,
    #[serde(default)]
    recursive: bool,
    max_entries: Option<usize>,
}

impl ListDir {
    pub(crate) const fn new(policy: Arc<PathPolicy>) -> Self {
        Self { policy }
    }
}

impl Operation for ListDir {
    type Arguments = ListArguments;
    const NAME: &'static str = "list_dir";
    const DESCRIPTION: &'static str = "List a folder, without .git, node_modules and the like.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "recursive": {"type": "boolean"},
                "max_entries": {"type": "integer"},
            },
            "required": ["path"],
        })
    }

    async fn run(&self, arguments: ListArguments, context: &ToolContext) -> ToolResult {
        answer(
            with_policy(&self.policy, context, move |policy| {
                list(policy, &arguments)
            })
            .await,
        )
    }
}

fn list(policy: &PathPolicy, arguments: &ListArguments) -> Result<String, String> {
    let path = &arguments.path;
    let folder = policy.read(path).map_err(|denied| denied.to_string())?;
    let entries = folder.entries().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("Directory not found: {path}"),
        io::ErrorKind::NotADirectory => format!("Not a directory: {path}"),
        _ => format!("cannot list {path}: {error}"),
    })?;
    let mut listing = Listing {
        policy,
        recursive: arguments.recursive,
        limit: arguments.max_entries.unwrap_or(200).max(1),
        shown: Vec::new(),
        total: 0,
    };
    listing.add(folder.path(), "", entries);
    let (shown, total) = (listing.shown.len(), listing.total);
    if total == 0 {
        return Ok(format!("Directory {path} is empty"));
    }
    let mut text = listing.shown.join("\n");
    if total > shown {
        let more = if total >= MAX_COUNTED { " or more" } else { "" };
        text.push_str(&format!(
            "\n\n(truncated, showing first {shown} of {total}{more} entries)"
        ));
    }
    Ok(text)
}

struct Listing<'a> {
    policy: &'a PathPolicy,
    recursive: bool,
    limit: usize,
    shown: Vec<String>,
    total: usize,
}

impl Listing<'_> {
    /// Adds the entries of `folder` in order, each followed by the entries below it.
    fn add(&mut self, folder: &Path, prefix: &str, mut entries: Vec<BeneathEntry>) {
        entries.retain(|entry| !is_ignored(&entry.name));
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        for entry in entries {
            if self.total >= MAX_COUNTED {
                return;
            }
            let place = folder.join(&entry.name);
            let name = entry.name.to_string_lossy();
            self.total += 1;
            if self.shown.len() < self.limit {
                self.shown
                    .push(self.line(prefix, &name, self.is_folder(&place, &entry)));
            }
            if self.recursive && entry.is_dir {
                self.descend(&place, &format!("{prefix}{name}/"));
            }
        }
    }

    /// Adds the entries below a folder. Links are not followed, and folders that are closed or
    /// unreadable are shown without content.
    fn descend(&mut self, folder: &Path, prefix: &str) {
        let Ok(folder) = self.policy.read(folder) else {
            return;
        };
        if let Ok(entries) = folder.entries() {
            self.add(folder.path(), prefix, entries);
        }
    }

    fn line(&self, prefix: &str, name: &str, is_folder: bool) -> String {
        match (self.recursive, is_folder) {
            (true, true) => format!("{prefix}{name}/"),
            (true, false) => format!("{prefix}{name}"),
            (false, true) => format!("📁 {name}"),
            (false, false) => format!("📄 {name}"),
        }
    }

    /// `true` for a folder, and for a link to a folder that the policy lets the tools read.
    fn is_folder(&self, place: &Path, entry: &BeneathEntry) -> bool {
        let leads_to_folder = || {
            self.policy
                .read(place)
                .is_ok_and(|target| target.path().is_dir())
        };
        entry.is_dir || (entry.is_link && leads_to_folder())
    }
}
