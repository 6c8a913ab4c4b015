//! Whether what came of a heartbeat is worth telling.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_provider::ProviderRouter;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::ask::{Question, ask};

const TOOL: &str = "evaluate_notification";

/// What models say that were told of it and have nothing to say.
const SILENT: [&str; 2] = ["HEARTBEAT_OK", "NO_REPLY"];

const SYSTEM: &str = "A personal assistant worked on a recurring task while nobody was watching. You get the task and \
    its answer, and decide whether to send that answer to its owner, by calling evaluate_notification. Send what the \
    owner would act on or asked to be told: results, changes, warnings, errors, things that are due. Do not send that \
    everything is as it was, that nothing is new, or that the task was done as always.";

/// Asks a model, unless it is plain.
#[derive(Clone, Debug)]
pub struct Evaluator {
    router: Arc<ProviderRouter>,
    instructions: PathBuf,
}

impl Evaluator {
    /// Asks the models of `router`, with the instructions in `prompts/evaluator.md` of the
    /// workspace where there are any.
    #[must_use]
    pub fn new(router: Arc<ProviderRouter>, workspace: &Path) -> Self {
        Self {
            router,
            instructions: workspace.join("prompts").join("evaluator.md"),
        }
    }

    /// What of an answer is to be sent to a person, if anything is. Where no model can say, all of
    /// it is: what was found must not be lost. Signs of silence are never sent.
    pub async fn worth_telling(
        &self,
        task: &str,
        answer: &str,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let answer = without_signs(answer)?;
        let own = tokio::fs::read_to_string(&self.instructions).await.ok();
        let own = own.as_deref().map(str::trim).filter(|own| !own.is_empty());
        let question = Question {
            name: "heartbeat evaluation",
            system: own.unwrap_or(SYSTEM),
            text: format!("# Task\n\n{task}\n\n# Answer\n\n{answer}"),
            tool: (
                TOOL,
                "Say whether the answer is sent to its owner.",
                parameters(),
            ),
        };
        let is_worth = match ask(&self.router, &question, cancel).await {
            Ok(said) => {
                let is_worth = said.get("should_notify").and_then(truth).unwrap_or(true);
                let reason = said
                    .get("reason")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                tracing::info!(is_worth, reason, "the answer of a heartbeat was looked at");
                is_worth
            }
            Err(error) => {
                tracing::warn!(
                    error,
                    "nobody could say whether the answer of a heartbeat is worth telling"
                );
                true
            }
        };
        is_worth.then_some(answer)
    }
}

/// An answer without signs of silence, however they are dressed; `None` when nothing is left that
/// says anything.
fn without_signs(answer: &str) -> Option<String> {
    let lines: Vec<String> = answer.lines().filter_map(without_sign).collect();
    let text = lines.join("\n").trim().to_owned();
    text.chars().any(char::is_alphanumeric).then_some(text)
}

/// A line without signs of silence; `None` when it was nothing else.
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

/// A truth, also as the text that some models write.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
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
    fn signs_of_silence_are_never_told() {
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
        for (text, told) in table {
            assert_eq!(without_signs(text).as_deref(), Some(told), "{text}");
        }
    }
}
