//! `read_file`.

use std::sync::Arc;

use nanobot_guard::PathPolicy;
use nanobot_tool::ToolContext;
use nanobot_types::{Effect, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    not_utf8, unreadable,
    window::{self, BUDGET, ReadError},
    with_policy,
};
use crate::operation::{Operation, answer};

/// Maximum size of a file that is read, even in part, in bytes.
const MAX_READ: u64 = 100 << 20;

#[derive(Debug)]
pub(crate) struct ReadFile {
    policy: Arc<PathPolicy>,
}

#[derive(Deserialize)]
pub(crate) struct ReadArguments {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl ReadFile {
    pub(crate) const fn new(policy: Arc<PathPolicy>) -> Self {
        Self { policy }
    }
}

impl Operation for ReadFile {
    type Arguments = ReadArguments;
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Read a text file, or a part of it, as numbered lines.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "minimum": 1, "description": "First line"},
                "limit": {"type": "integer", "minimum": 1, "description": "Lines"},
            },
            "required": ["path"],
        })
    }

    async fn run(&self, arguments: ReadArguments, context: &ToolContext) -> ToolResult {
        answer(
            with_policy(&self.policy, context, move |policy| {
                read(policy, &arguments)
            })
            .await,
        )
    }
}

fn read(policy: &PathPolicy, arguments: &ReadArguments) -> Result<String, String> {
    let path = &arguments.path;
    let file = policy.read(path).map_err(|denied| denied.to_string())?;
    let file = file.open().map_err(|error| unreadable(path, &error))?;
    let size = file
        .metadata()
        .map_err(|error| unreadable(path, &error))?
        .len();
    if size > MAX_READ {
        return Err(format!(
            "{path} is too large to read ({size} bytes, at most {MAX_READ})"
        ));
    }
    let first = arguments.offset.unwrap_or(1).max(1);
    let limit = arguments.limit.unwrap_or(2000).max(1);
    let window = window::read(file, first, limit).map_err(|error| match error {
        ReadError::Io(error) => unreadable(path, &error),
        ReadError::NotUtf8 { offset } => not_utf8(path, offset),
    })?;
    let (total, last) = (window.total, window.last);
    if total == 0 {
        return Ok(format!("(Empty file: {path})"));
    }
    if first > total {
        return Err(format!(
            "offset {first} is beyond end of file ({total} lines)"
        ));
    }
    let mut text = window.shown;
    if let Some(length) = window.clipped {
        text.push_str(&format!(
            "\n\n(Line {first} has {length} characters; only the first {BUDGET} are shown.)"
        ));
    }
    let next = last + 1;
    text.push_str(&if last < total {
        format!("\n\n(Showing lines {first}-{last} of {total}. Use offset={next} to continue.)")
    } else {
        format!("\n\n(End of file — {total} lines total)")
    });
    Ok(text)
}
