//! `apply_patch`.
//!
//! Decision: the whole patch is applied in memory first, so that a mistake anywhere changes nothing.
//! Then each file is written as by `write_file`: durably, under its old or new content. If a write
//! fails, the files written before get their old content back. A crash between two writes leaves whole
//! files, some of them new.

mod hunk;
mod parse;
mod plan;

use std::sync::Arc;

use nanobot_guard::PathPolicy;
use nanobot_tool::{CallReview, ToolContext};
use nanobot_types::{Effect, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use self::{parse::parse, plan::Plan};
use super::{
    review::{review_changes, unconfirmed},
    with_policy,
};
use crate::operation::{Operation, answer};

/// Maximum number of edits of a call.
const MAX_EDITS: usize = 200;
/// Maximum length of a patch, in bytes.
const MAX_PATCH: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct ApplyPatch {
    policy: Arc<PathPolicy>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct PatchArguments {
    #[serde(default)]
    edits: Vec<Edit>,
    patch: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// One change of one file.
#[derive(Clone, Debug, Deserialize)]
struct Edit {
    path: String,
    #[serde(default)]
    old_text: String,
    new_text: Option<String>,
    #[serde(default)]
    replace_all: bool,
    move_to: Option<String>,
    #[serde(default)]
    delete: bool,
}

/// A change as the plan performs it.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// Creates a file, which must not exist.
    Create(String),
    /// Replaces a text that occurs once, or each occurrence.
    Replace { old: String, new: String, all: bool },
    /// Replaces lines found by their context.
    Hunks(Vec<Hunk>),
    /// Renames the file; nothing must exist there.
    Move(String),
    /// Deletes the file.
    Delete,
}

/// Lines to find in a file, and their replacement.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hunk {
    /// Lines that precede the place, in order, such as the heads of a class and a function.
    heads: Vec<String>,
    old: Vec<String>,
    new: Vec<String>,
    /// `true` if the lines are the last of the file.
    is_at_end: bool,
}

impl ApplyPatch {
    pub(crate) const fn new(policy: Arc<PathPolicy>) -> Self {
        Self { policy }
    }
}

impl Operation for ApplyPatch {
    type Arguments = PatchArguments;
    const NAME: &'static str = "apply_patch";
    const DESCRIPTION: &'static str = "Change several files at once: all or nothing. Give `edits`, or \
        `patch` as '*** Begin Patch … *** End Patch'. An edit without old_text creates a file.";
    const EFFECT: Effect = Effect::Irreversible;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "edits": {"type": "array", "maxItems": MAX_EDITS, "items": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "old_text": {"type": "string", "description": "Occurs once"},
                        "new_text": {"type": "string"},
                        "replace_all": {"type": "boolean"},
                        "move_to": {"type": "string"},
                        "delete": {"type": "boolean"},
                    },
                    "required": ["path"],
                }},
                "patch": {"type": "string"},
                "dry_run": {"type": "boolean", "description": "Only check"},
            },
        })
    }

    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        let paths = PatchArguments::deserialize(arguments).map(paths_in);
        // A call that cannot be read changes nothing.
        review_changes(&self.policy, context, paths.unwrap_or_default()).await
    }

    async fn run(&self, arguments: PatchArguments, context: &ToolContext) -> ToolResult {
        let paths = paths_in(arguments.clone());
        if let Some(question) = unconfirmed(&self.policy, context, paths).await {
            return question;
        }
        let done = with_policy(&self.policy, context, move |policy| {
            apply(policy, arguments)
        });
        match done.await {
            Ok((output, change)) => ToolResult {
                change,
                ..ToolResult::ok(output)
            },
            Err(reason) => answer(Err(reason)),
        }
    }
}

fn apply(
    policy: &PathPolicy,
    arguments: PatchArguments,
) -> Result<(String, Option<String>), String> {
    let PatchArguments {
        edits,
        patch,
        dry_run,
    } = arguments;
    let changes = changes_in(edits, patch)?;
    if changes.is_empty() {
        return Err("there is nothing to change: give edits or a patch".to_owned());
    }
    if changes.len() > MAX_EDITS {
        return Err(format!("at most {MAX_EDITS} edits can be applied at once"));
    }
    let mut plan = Plan::default();
    for (number, (path, change)) in (1..).zip(changes) {
        let place = |reason| format!("edit {number}: {reason}. No file has been changed");
        plan.add(policy, &path, change).map_err(place)?;
    }
    let (listing, change) = (plan.listing(), plan.difference());
    if dry_run {
        return Ok((format!("The patch can be applied:\n{listing}"), None));
    }
    plan.write()?;
    Ok((format!("Applied the patch:\n{listing}"), change))
}

/// Returns the changes that a call asks for, each with the path of its file.
fn changes_in(edits: Vec<Edit>, patch: Option<String>) -> Result<Vec<(String, Change)>, String> {
    match patch.filter(|patch| !patch.trim().is_empty()) {
        Some(_) if !edits.is_empty() => Err("give either edits or patch, not both".to_owned()),
        Some(patch) if patch.len() > MAX_PATCH => {
            Err(format!("the patch is longer than {MAX_PATCH} bytes"))
        }
        Some(patch) => parse(&patch),
        None => changes_of(edits),
    }
}

/// Returns the files that a call writes; none if it cannot be read.
fn paths_in(arguments: PatchArguments) -> Vec<String> {
    let changes = changes_in(arguments.edits, arguments.patch);
    changes
        .unwrap_or_default()
        .into_iter()
        .flat_map(targets)
        .collect()
}

/// Returns the files that a change writes.
fn targets((path, change): (String, Change)) -> Vec<String> {
    match change {
        Change::Move(to) => vec![path, to],
        Change::Create(_) | Change::Replace { .. } | Change::Hunks(_) | Change::Delete => {
            vec![path]
        }
    }
}

/// Turns edits into changes; one edit can be two.
fn changes_of(edits: Vec<Edit>) -> Result<Vec<(String, Change)>, String> {
    let mut changes = Vec::new();
    for (number, edit) in (1..).zip(edits) {
        let Edit {
            path,
            old_text,
            new_text,
            replace_all,
            move_to,
            delete,
        } = edit;
        if delete && (new_text.is_some() || move_to.is_some()) {
            return Err(format!(
                "edit {number}: delete goes with neither new_text nor move_to"
            ));
        }
        if delete {
            changes.push((path, Change::Delete));
            continue;
        }
        if new_text.is_none() && move_to.is_none() {
            return Err(format!(
                "edit {number}: new_text, move_to or delete is missing"
            ));
        }
        if let Some(new) = new_text {
            let change = if old_text.is_empty() {
                Change::Create(new)
            } else {
                Change::Replace {
                    old: old_text,
                    new,
                    all: replace_all,
                }
            };
            changes.push((path.clone(), change));
        }
        if let Some(target) = move_to {
            changes.push((path, Change::Move(target)));
        }
    }
    Ok(changes)
}
