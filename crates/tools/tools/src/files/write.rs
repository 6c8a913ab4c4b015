//! `write_file`.

use std::sync::Arc;

use nanobot_guard::PathPolicy;
use nanobot_tool::{CallReview, ToolContext};
use nanobot_types::{Effect, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    change::unified_change,
    review::{review_changes, unconfirmed},
    unwritable, whole_text_or_none, with_policy,
};
use crate::operation::{Operation, answer};

#[derive(Debug)]
pub(crate) struct WriteFile {
    policy: Arc<PathPolicy>,
}

#[derive(Deserialize)]
pub(crate) struct WriteArguments {
    path: String,
    content: String,
}

impl WriteFile {
    pub(crate) const fn new(policy: Arc<PathPolicy>) -> Self {
        Self { policy }
    }
}

impl Operation for WriteFile {
    type Arguments = WriteArguments;
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Write or replace a text file, creating parent folders.";
    const EFFECT: Effect = Effect::Idempotent;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
            },
            "required": ["path", "content"],
        })
    }

    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        let path = arguments.get("path").and_then(Value::as_str);
        let paths = path.map(str::to_owned).into_iter().collect();
        review_changes(&self.policy, context, paths).await
    }

    async fn run(&self, arguments: WriteArguments, context: &ToolContext) -> ToolResult {
        let paths = vec![arguments.path.clone()];
        if let Some(question) = unconfirmed(&self.policy, context, paths).await {
            return question;
        }
        let written = with_policy(&self.policy, context, move |policy| {
            write(policy, &arguments)
        });
        match written.await {
            Ok((output, change)) => ToolResult {
                change,
                ..ToolResult::ok(output)
            },
            Err(reason) => answer(Err(reason)),
        }
    }
}

fn write(
    policy: &PathPolicy,
    WriteArguments { path, content }: &WriteArguments,
) -> Result<(String, Option<String>), String> {
    let file = policy.write(path).map_err(|denied| denied.to_string())?;
    // A file that cannot be read as text is replaced without a diff.
    let before = whole_text_or_none(path, &file).ok();
    file.replace(content.as_bytes())
        .map_err(|error| unwritable(path, &error))?;
    let (characters, bytes) = (content.chars().count(), content.len());
    let place = file.path().display();
    let output = format!("Successfully wrote {characters} characters ({bytes} bytes) to {place}");
    let change = before.and_then(|before| unified_change(&before.unwrap_or_default(), content));
    Ok((output, change))
}
