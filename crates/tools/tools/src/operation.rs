//! The trait that the tools of this crate implement: a handwritten schema, arguments as a Rust
//! type, and a whole [`ToolResult`] as the result.
//!
//! [`TypedTool`](nanobot_tool::TypedTool) derives the schema and distinguishes only success and
//! `Error: …`. Here schemas are kept short by hand, and some results are neither: a warning, an
//! exit code, a JSON document that describes an error.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use nanobot_tool::{CallReview, Tool, ToolContext};
use nanobot_types::{Effect, ToolResult, ToolSource, ToolSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One tool.
pub(crate) trait Operation: Send + Sync + 'static {
    type Arguments: DeserializeOwned + Send;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const EFFECT: Effect;

    /// Returns the JSON schema of the arguments.
    fn parameters() -> Value;

    /// Describes a call, as [`Tool::review`] does.
    fn review(
        &self,
        arguments: &Value,
        context: &ToolContext,
    ) -> impl Future<Output = CallReview> + Send {
        let _ = (arguments, context);
        std::future::ready(CallReview::of_effect(Self::EFFECT))
    }

    fn run(
        &self,
        arguments: Self::Arguments,
        context: &ToolContext,
    ) -> impl Future<Output = ToolResult> + Send;
}

/// Wraps an operation as a tool.
pub(crate) fn tool<T: Operation>(operation: T) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: T::NAME.into(),
        description: T::DESCRIPTION.to_owned(),
        parameters: T::parameters(),
        effect: T::EFFECT,
        source: ToolSource::BuiltIn,
    };
    Arc::new(BuiltIn { spec, operation })
}

struct BuiltIn<T> {
    spec: ToolSpec,
    operation: T,
}

impl<T> fmt::Debug for BuiltIn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltIn")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<T: Operation> Tool for BuiltIn<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        self.operation.review(arguments, context).await
    }

    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult {
        match serde_json::from_value(arguments) {
            Ok(arguments) => self.operation.run(arguments, context).await,
            Err(error) => {
                let name = T::NAME;
                ToolResult::error(format!(
                    "Error: Invalid parameters for tool '{name}': {error}"
                ))
            }
        }
    }
}

/// Turns an outcome into a result; a failure reads `Error: …`.
pub(crate) fn answer(outcome: Result<String, String>) -> ToolResult {
    match outcome {
        Ok(output) => ToolResult::ok(output),
        Err(reason) => ToolResult::error(format!("Error: {reason}")),
    }
}

/// Runs blocking work off the runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(format!("the work was interrupted: {error}")),
    }
}
