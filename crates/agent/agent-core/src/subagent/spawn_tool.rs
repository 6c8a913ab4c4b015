//! The `spawn` tool: delegates a task to a subagent.

use std::sync::Arc;

use nanobot_tool::{ToolContext, ToolError, TypedTool};
use nanobot_types::{Effect, chain};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Spawner, Started, SubagentTask, is_subagent_session};

/// The `spawn` tool: delegates tasks to subagents.
#[derive(Debug)]
pub struct SpawnTool {
    spawner: Arc<dyn Spawner>,
}

impl SpawnTool {
    /// Creates a tool that gives tasks to `spawner`.
    #[must_use]
    pub fn new(spawner: Arc<dyn Spawner>) -> Self {
        Self { spawner }
    }
}

/// Arguments of `spawn`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SpawnArguments {
    /// Complete: this conversation is not seen
    task: String,
    #[serde(default)]
    label: Option<String>,
    /// Otherwise the result comes as a message
    #[serde(default)]
    wait: bool,
    #[serde(default)]
    temperature: Option<f32>,
}

impl TypedTool for SpawnTool {
    type Args = SpawnArguments;
    const NAME: &'static str = "spawn";
    const DESCRIPTION: &'static str =
        "Give a long or independent task to a subagent, which has files, shell and web.";
    // The task id is derived from the turn and the position of the call, and a task is accepted
    // once.
    const EFFECT: Effect = Effect::Idempotent;

    fn untrusted_origin(&self, arguments: &Value) -> Option<String> {
        // An awaited result comes without the marks in the session of the subagent.
        let waits = arguments.get("wait").and_then(Value::as_bool);
        waits.unwrap_or_default().then(|| "a subagent".to_owned())
    }

    async fn call(
        &self,
        arguments: SpawnArguments,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        if is_subagent_session(&context.session) {
            return Err("a subagent cannot start another one".into());
        }
        if arguments.task.trim().is_empty() {
            return Err("the task is empty".into());
        }
        if arguments
            .temperature
            .is_some_and(|temperature| !(0.0..=2.0).contains(&temperature))
        {
            return Err("temperature must be between 0 and 2".into());
        }
        let mut task = SubagentTask::asked_by(context, arguments.task, arguments.label.as_deref());
        task.wait = arguments.wait;
        task.temperature = arguments.temperature;
        let longest = self.spawner.settings().max_chain_length;
        if task.chain > longest {
            let why = format!(
                "{longest} tasks in a row were started by each other's results; ask the person first"
            );
            return Err(ToolError::new(why));
        }
        let started = self
            .spawner
            .spawn(&task)
            .await
            .map_err(|error| ToolError::new(chain(&error)))?;
        if !task.wait {
            return Ok(started_message(&task, started));
        }
        let end = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err("cancelled".into()),
            end = self.spawner.end(&task) => end.map_err(|error| ToolError::new(chain(&error)))?,
        };
        end.into_call_result(&task).map_err(ToolError::new)
    }
}

fn started_message(task: &SubagentTask, started: Started) -> String {
    let state = match started {
        Started::Now => "started",
        Started::Queued => "waits until one of those at work is done",
    };
    format!(
        "Subagent '{}' (id: {}) {state}. Its result will come as a message.",
        task.label, task.id
    )
}
