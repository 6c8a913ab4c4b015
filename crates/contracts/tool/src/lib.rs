//! The tool contract: tools for the model, checked and run in one place.
//!
//! Decision: a tool never returns `Err`. Every failure is a [`ToolResult`] that the model reads and
//! can react to. [`Registry::run`] is the only way to execute a call: it casts and validates the
//! arguments along the schema, so a tool receives only arguments that fit.

mod cast;
mod context;
mod registry;
mod schema;
mod typed;
mod validate;
mod watch;

use async_trait::async_trait;
use nanobot_types::{ToolResult, ToolSpec};
use serde_json::Value;

pub use context::ToolContext;
pub use registry::{ERROR_HINT, Registry, RegistryError};
pub use typed::{ToolError, Typed, TypedTool};
pub use watch::{ToolRun, ToolWatch};

/// A tool that the model can call.
#[async_trait]
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// Returns the specification shown to the model. It never changes during the life of the tool,
    /// not by a single byte.
    fn spec(&self) -> &ToolSpec;

    /// Runs the tool. `arguments` is an object that fits the schema. Returns soon after
    /// [`ToolContext::cancel`] is cancelled, leaving nothing running.
    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult;
}
