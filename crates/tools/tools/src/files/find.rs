//! `find_files`.

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use nanobot_escape::sanitize_line;
use nanobot_guard::PathPolicy;
use nanobot_tool::ToolContext;
use nanobot_types::{Effect, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    search_folder,
    walk::{Limits, glob, walk},
    with_policy,
};
use crate::operation::{Operation, answer};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

#[derive(Debug)]
pub(crate) struct FindFiles {
    policy: Arc<PathPolicy>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SortBy {
    #[default]
    Mtime,
    Name,
}

#[derive(Deserialize)]
pub(crate) struct FindArguments {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    sort: SortBy,
}

impl FindFiles {
    pub(crate) const fn new(policy: Arc<PathPolicy>) -> Self {
        Self { policy }
    }
}

impl Operation for FindFiles {
    type Arguments = FindArguments;
    const NAME: &'static str = "find_files";
    const DESCRIPTION: &'static str = "Find files by a glob, the newest first. '*.rs' matches names, \
        'src/**/*.rs' paths below `path`. Files excluded by .gitignore are left out.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "path": {"type": "string", "description": "Folder, default the workspace"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
                "sort": {"type": "string", "enum": ["mtime", "name"]},
            },
            "required": ["pattern"],
        })
    }

    async fn run(&self, arguments: FindArguments, context: &ToolContext) -> ToolResult {
        let limits = Limits::new(context.cancel.clone());
        let work = with_policy(&self.policy, context, move |policy| {
            find(policy, &arguments, &limits)
        });
        answer(work.await)
    }
}

fn find(policy: &PathPolicy, arguments: &FindArguments, limits: &Limits) -> Result<String, String> {
    let path = arguments.path.as_deref().unwrap_or(".");
    let start = search_folder(policy, path)?;
    let pattern = glob(&arguments.pattern)?;
    let mut found: Vec<(SystemTime, String)> = Vec::new();
    let stop = walk(policy, &start, Some(&pattern), limits, &mut |file| {
        // The name of a file that tools may not read is not shown either.
        if let Some(resolved) = file.resolve() {
            let metadata = resolved.path().symlink_metadata().ok();
            let changed = metadata.and_then(|metadata| metadata.modified().ok());
            found.push((changed.unwrap_or(UNIX_EPOCH), sanitize_line(file.relative)));
        }
        ControlFlow::Continue(())
    });
    match arguments.sort {
        SortBy::Mtime => {
            found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        }
        SortBy::Name => found.sort_by(|one, other| one.1.cmp(&other.1)),
    }
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let total = found.len();
    let mut text = if total == 0 {
        format!("No files match '{}'", arguments.pattern)
    } else {
        let names = found.into_iter().take(limit).map(|(_, name)| name);
        names.collect::<Vec<_>>().join("\n")
    };
    if total > limit {
        text.push_str(&format!("\n\n(Showing {limit} of {total} files.)"));
    }
    text.push_str(&stop.map(super::walk::Stop::note).unwrap_or_default());
    Ok(text)
}
