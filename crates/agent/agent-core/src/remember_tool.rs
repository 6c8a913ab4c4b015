//! The `remember` tool, with which the model stores facts where people and rooms have memory of
//! their own.
//!
//! Decision: file tools reach only shared memory, so private facts can neither be written to nor
//! read from the wrong place. The conversation determines whose memory is used.

use std::sync::Arc;

use nanobot_memory::{MemoryError, MemoryStore, Reason};
use nanobot_tool::{CallReview, CallRisk, ToolContext, ToolError, TypedTool};
use nanobot_types::Effect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::AudienceLookup;

/// Maximum number of attempts when others change the same memory at the same time.
const TRIES: u32 = 8;

/// The `remember` tool: stores a fact in the memory of the conversation's audience.
#[derive(Debug)]
pub struct RememberTool {
    memory: Arc<dyn MemoryStore>,
    audiences: AudienceLookup,
}

impl RememberTool {
    /// Creates a tool that writes to `memory`.
    #[must_use]
    pub fn new(memory: Arc<dyn MemoryStore>, audiences: AudienceLookup) -> Self {
        Self { memory, audiences }
    }
}

/// Arguments of `remember`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RememberArguments {
    /// The fact, in a sentence.
    fact: String,
}

impl TypedTool for RememberTool {
    type Args = RememberArguments;
    const NAME: &'static str = "remember";
    const DESCRIPTION: &'static str = "Keep a fact in the private memory of this conversation. It is not shown in chats with other people.";
    // A fact that is already there is not added again.
    const EFFECT: Effect = Effect::Idempotent;

    async fn review(&self, _: &Value, _: &ToolContext) -> CallReview {
        CallReview {
            risk: CallRisk::NeedsConsent("changes what I remember".to_owned()),
            ..CallReview::default()
        }
    }

    async fn call(
        &self,
        arguments: RememberArguments,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let fact = arguments
            .fact
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        if fact.is_empty() {
            return Err("There is nothing to remember.".into());
        }
        let line = format!("- {}", fact.trim_start_matches("- "));
        let scope = self.audiences.of(&context.session).await.home();
        let reason = Reason::Turn {
            session: context.session.clone(),
            turn: context.trace.clone(),
        };
        for _ in 0..TRIES {
            let facts = self
                .memory
                .facts(&scope)
                .await
                .map_err(|error| failed(&error))?;
            if facts.text.lines().any(|known| known == line) {
                return Ok("That is remembered already.".to_owned());
            }
            let separator = if facts.text.is_empty() || facts.text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            let text = format!("{}{separator}{line}\n", facts.text);
            match self
                .memory
                .replace_facts(&scope, text, facts.revision, &reason)
                .await
            {
                Ok(_) => return Ok("Remembered.".to_owned()),
                Err(MemoryError::Changed) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Err("Others keep changing this memory; try again.".into())
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ToolError {
    tracing::warn!(error, "could not store a fact");
    ToolError::new(format!("Not remembered: {error}."))
}
