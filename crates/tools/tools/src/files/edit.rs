//! `edit_file`.

use std::{ops::Range, sync::Arc};

use nanobot_guard::PathPolicy;
use nanobot_tool::{CallReview, ToolContext};
use nanobot_types::{Effect, Severity, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    change::unified_change,
    locate::{explain_absence, matches},
    review::{review_changes, unconfirmed},
    unwritable, whole_text, whole_text_or_none, with_policy,
};
use crate::operation::{Operation, answer};

#[derive(Debug)]
pub(crate) struct EditFile {
    policy: Arc<PathPolicy>,
}

#[derive(Deserialize)]
pub(crate) struct EditArguments {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

/// Outcome of an edit that is not an error.
enum EditOutcome {
    Done {
        place: String,
        change: Option<String>,
    },
    Ambiguous(usize),
}

impl EditFile {
    pub(crate) const fn new(policy: Arc<PathPolicy>) -> Self {
        Self { policy }
    }
}

impl Operation for EditFile {
    type Arguments = EditArguments;
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str = "Replace text in a file. old_text has to occur once unless \
        replace_all is set. Empty old_text creates a file.";
    const EFFECT: Effect = Effect::Irreversible;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "old_text": {"type": "string"},
                "new_text": {"type": "string"},
                "replace_all": {"type": "boolean"},
            },
            "required": ["path", "old_text", "new_text"],
        })
    }

    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        let path = arguments.get("path").and_then(Value::as_str);
        let paths = path.map(str::to_owned).into_iter().collect();
        review_changes(&self.policy, context, paths).await
    }

    async fn run(&self, arguments: EditArguments, context: &ToolContext) -> ToolResult {
        let paths = vec![arguments.path.clone()];
        if let Some(question) = unconfirmed(&self.policy, context, paths).await {
            return question;
        }
        match with_policy(&self.policy, context, move |policy| {
            edit(policy, &arguments)
        })
        .await
        {
            Ok(EditOutcome::Done { place, change }) => ToolResult {
                change,
                ..ToolResult::ok(format!("Successfully edited {place}"))
            },
            Ok(EditOutcome::Ambiguous(count)) => ToolResult {
                severity: Some(Severity::Warning),
                ..ToolResult::error(format!(
                    "Warning: old_text appears {count} times. Add surrounding lines to make it \
                     unique, or set replace_all=true."
                ))
            },
            Err(reason) => answer(Err(reason)),
        }
    }
}

fn edit(policy: &PathPolicy, arguments: &EditArguments) -> Result<EditOutcome, String> {
    let EditArguments {
        path,
        old_text,
        new_text,
        replace_all,
    } = arguments;
    let file = policy.write(path).map_err(|denied| denied.to_string())?;
    let save = |before: &str, after: &str| {
        file.replace(after.as_bytes())
            .map_err(|error| unwritable(path, &error))?;
        Ok(EditOutcome::Done {
            place: file.path().display().to_string(),
            change: unified_change(before, after),
        })
    };
    if old_text.is_empty() {
        return match whole_text_or_none(path, &file)? {
            Some(text) if !text.is_empty() => Err(format!(
                "old_text is empty, but {path} is not. Give the text to replace, or use write_file."
            )),
            _ => save("", new_text),
        };
    }
    let stored = whole_text(path, &file)?;
    let has_returns = stored.contains("\r\n");
    let content = stored.replace("\r\n", "\n");
    let wanted = old_text.replace("\r\n", "\n");
    let replacement = new_text.replace("\r\n", "\n");

    let found = matches(&content, &wanted);
    let Some(first) = found.first().and_then(|range| content.get(range.clone())) else {
        return Err(explain_absence(path, &content, &wanted));
    };
    if found.len() > 1 && !replace_all {
        return Ok(EditOutcome::Ambiguous(found.len()));
    }
    // A loose match is replaced only if its text equals that of the first match.
    let same = |range: &Range<usize>| content.get(range.clone()) == Some(first);
    let edited = replaced(
        &content,
        found.iter().filter(|range| same(range)),
        &replacement,
    );
    let edited = if has_returns {
        edited.replace('\n', "\r\n")
    } else {
        edited
    };
    save(&stored, &edited)
}

fn replaced<'a>(
    content: &str,
    ranges: impl Iterator<Item = &'a Range<usize>>,
    replacement: &str,
) -> String {
    let mut edited = String::with_capacity(content.len() + replacement.len());
    let mut done = 0;
    // Loose matches may overlap; skip a range that is already partly replaced.
    for range in ranges {
        if range.start < done {
            continue;
        }
        edited.push_str(content.get(done..range.start).unwrap_or_default());
        edited.push_str(replacement);
        done = range.end;
    }
    edited.push_str(content.get(done..).unwrap_or_default());
    edited
}
