//! Decides whether a heartbeat reply is sent to the user.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_provider::ProviderRouter;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::query::{ToolQuestion, query};

const TOOL: &str = "evaluate_notification";

/// Markers with which a model says that it has nothing to report.
const SILENT: [&str; 2] = ["HEARTBEAT_OK", "NO_REPLY"];

const SYSTEM: &str = "A personal assistant worked on a recurring task while nobody was watching. You get the task and \
    its answer, and decide whether to send that answer to its owner, by calling evaluate_notification. Send what the \
    owner would act on or asked to be told: results, changes, warnings, errors, things that are due. Do not send that \
    everything is as it was, that nothing is new, or that the task was done as always.";

/// Asks a model whether a reply is worth sending.
#[derive(Clone, Debug)]
pub struct Evaluator {
    router: Arc<ProviderRouter>,
    instructions: PathBuf,
}

impl Evaluator {
    /// Creates an evaluator that uses the models of `router`. The file `prompts/evaluator.md` of
    /// the workspace, if it exists, replaces the system prompt.
    #[must_use]
    pub fn new(router: Arc<ProviderRouter>, workspace: &Path) -> Self {
        Self {
            router,
            instructions: workspace.join("prompts").join("evaluator.md"),
        }
    }

    /// Returns the text to send to the user, or `None` if the reply is not worth sending. Silence
    /// markers are removed first, and a reply of nothing else is never sent. If no model can
    /// decide, the reply is sent, so that its findings are not lost.
    pub async fn filter(
        &self,
        task: &str,
        answer: &str,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let answer = without_signs(answer)?;
        let own = tokio::fs::read_to_string(&self.instructions).await.ok();
        let own = own.as_deref().map(str::trim).filter(|own| !own.is_empty());
        let question = ToolQuestion {
            name: "heartbeat evaluation",
            system: own.unwrap_or(SYSTEM),
            text: format!("# Task\n\n{task}\n\n# Answer\n\n{answer}"),
            tool: (
                TOOL,
                "Say whether the answer is sent to its owner.",
                parameters(),
            ),
        };
        let is_worth = match query(&self.router, &question, cancel).await {
            Ok(said) => {
                let is_worth = said
                    .get("should_notify")
                    .and_then(parse_bool)
                    .unwrap_or(true);
                let reason = said
                    .get("reason")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                tracing::info!(is_worth, reason, "evaluated a heartbeat reply");
                is_worth
            }
            Err(error) => {
                tracing::warn!(error, "cannot evaluate a heartbeat reply; sending it");
                true
            }
        };
        is_worth.then_some(answer)
    }
}

/// Removes silence markers from a reply, whatever their formatting; `None` if no words are left.
fn without_signs(answer: &str) -> Option<String> {
    let lines: Vec<String> = answer.lines().filter_map(without_sign).collect();
    let text = lines.join("\n").trim().to_owned();
    text.chars().any(char::is_alphanumeric).then_some(text)
}

/// Removes silence markers from a line; `None` if nothing else was in it.
fn without_sign(line: &str) -> Option<String> {
    let mut left = line.to_owned();
    for sign in SILENT {
        for spelling in [sign.to_owned(), sign.to_lowercase()] {
            left = left.replace(&spelling, "");
        }
    }
    if left.len() == line.len() {
        return Some(left);
    }
    let is_dressing = |c: char| c.is_whitespace() || c.is_ascii_punctuation() || c == '—';
    left.chars()
        .any(char::is_alphanumeric)
        .then(|| left.trim_matches(is_dressing).to_owned())
}

/// Reads a boolean, also from the text that some models write.
fn parse_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
        _ => None,
    }
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "should_notify": {"type": "boolean", "description": "Whether the owner gets the answer"},
            "reason": {"type": "string", "description": "Why, in a few words"},
        },
        "required": ["should_notify"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_markers_are_never_sent() {
        for text in [
            "HEARTBEAT_OK",
            " heartbeat_ok.\n",
            "**HEARTBEAT_OK**",
            "`HEARTBEAT_OK`",
            "NO_REPLY",
            "",
            "👍",
            "...",
        ] {
            assert_eq!(without_signs(text), None, "{text}");
        }
        let table = [
            ("ok", "ok"),
            (
                "HEARTBEAT_OK, but the disk is full.",
                "but the disk is full",
            ),
            ("**Mail:** 3 new.\n\n**HEARTBEAT_OK**", "**Mail:** 3 new."),
            (" - one\n - two. ", "- one\n - two."),
            ("NO_REPLY\nHEARTBEAT_OK: disk full!", "disk full"),
            ("天气晴", "天气晴"),
        ];
        for (text, expected) in table {
            assert_eq!(without_signs(text).as_deref(), Some(expected), "{text}");
        }
    }
}
