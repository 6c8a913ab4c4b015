//! Decides whether a task is due.

use std::sync::Arc;

use chrono::{DateTime, FixedOffset};
use nanobot_provider::ProviderRouter;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::query::{ToolQuestion, query};

const TOOL: &str = "heartbeat";

const SYSTEM: &str = "You look after the recurring tasks of a personal assistant. You get the current time and the \
    list of tasks. Decide whether any of them is to be worked on right now, and say so by calling heartbeat: \
    action run with what is to be done, or action skip. A task that names a time or an interval is due only then.";

/// A model's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No task is due.
    Skip,
    /// The described work is due.
    Run(String),
}

/// Asks a model which tasks are due.
#[derive(Clone, Debug)]
pub struct Decider {
    router: Arc<ProviderRouter>,
}

impl Decider {
    /// Creates a decider that uses the models of `router`.
    #[must_use]
    pub fn new(router: Arc<ProviderRouter>) -> Self {
        Self { router }
    }

    /// Decides about `tasks` at `now`. A tool call without a valid action counts as skip.
    ///
    /// # Errors
    /// Returns a message if no model replied with a call of the tool; nothing is decided then.
    pub async fn decide(
        &self,
        tasks: &str,
        now: DateTime<FixedOffset>,
        cancel: &CancellationToken,
    ) -> Result<Decision, String> {
        let question = ToolQuestion {
            name: "heartbeat decision",
            system: SYSTEM,
            text: format!(
                "Current time: {}\n\n# Tasks\n\n{tasks}",
                now.format("%Y-%m-%d %H:%M (%A) %:z")
            ),
            tool: (
                TOOL,
                "Say whether any task is to be worked on now.",
                parameters(),
            ),
        };
        let answer = query(&self.router, &question, cancel).await?;
        let field = |name: &str| {
            answer
                .get(name)
                .and_then(Value::as_str)
                .map(str::trim)
                .unwrap_or_default()
        };
        Ok(match field("action") {
            "run" => {
                let wanted = Some(field("tasks"))
                    .filter(|wanted| !wanted.is_empty())
                    .unwrap_or(tasks);
                Decision::Run(wanted.to_owned())
            }
            _ => Decision::Skip,
        })
    }
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["skip", "run"], "description": "run only if something is due now"},
            "tasks": {"type": "string", "description": "With run: what is to be done, in your words"},
        },
        "required": ["action"],
    })
}
