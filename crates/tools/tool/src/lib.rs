//! The tool contract: tools for the model, checked and run in one place.
//!
//! Decision: a tool never returns `Err`. Every failure is a [`ToolResult`] that the model reads and
//! can react to. [`Registry::run`] is the only way to execute a call: it casts and validates the
//! arguments along the schema, so a tool receives only arguments that fit.
//!
//! ```
//! use std::sync::Arc;
//!
//! use nanobot_tool::{Registry, ToolContext, ToolError, Typed, TypedTool};
//! use nanobot_types::{Effect, ToolCall};
//!
//! struct Double;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Number {
//!     /// The number to double.
//!     value: i64,
//! }
//!
//! impl TypedTool for Double {
//!     type Args = Number;
//!     const NAME: &'static str = "double";
//!     const DESCRIPTION: &'static str = "Double a number.";
//!     const EFFECT: Effect = Effect::Pure;
//!
//!     async fn call(&self, number: Number, _: &ToolContext) -> Result<String, ToolError> {
//!         let doubled = number.value.checked_mul(2).ok_or("the number is too large")?;
//!         Ok(doubled.to_string())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::new();
//! registry.register(Arc::new(Typed::new(Double)))?;
//! // Models send numbers as text; the registry casts them along the schema.
//! let call = ToolCall::new("1", "double", r#"{"value": "21"}"#);
//! let result = registry.run(&call, &ToolContext::detached("cli:direct")).await;
//! assert_eq!(result.output, "42");
//! # Ok(())
//! # }
//! ```

mod cast;
mod context;
mod deferred;
mod feed;
mod registry;
mod review;
mod schema;
mod typed;
mod validate;
mod watch;

use async_trait::async_trait;
use nanobot_types::{ToolResult, ToolSpec};
use serde_json::Value;

pub use context::ToolContext;
pub use deferred::{TOOL_CALL, TOOL_SEARCH, resolve_call};
pub use feed::ToolFeed;
pub use registry::{ERROR_HINT, Registry, RegistryError};
pub use review::{CallReview, CallRisk};
pub use typed::{ToolError, Typed, TypedTool};
pub use watch::{ToolRun, ToolWatch};

/// A tool that the model can call.
#[async_trait]
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// Returns the specification shown to the model. It never changes during the life of the tool,
    /// not by a single byte.
    fn spec(&self) -> &ToolSpec;

    /// Describes a call, whose arguments fit the schema. Does nothing else. Unless a tool knows
    /// more, calls with an [irreversible](nanobot_types::Effect::Irreversible) effect are a risk
    /// after strangers' texts, and every call needs a permission of its own.
    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        let _ = (arguments, context);
        CallReview::of_effect(self.spec().effect)
    }

    /// Runs the tool. `arguments` is an object that fits the schema. Returns soon after
    /// [`ToolContext::cancel`] is cancelled, leaving nothing running.
    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult;
}
