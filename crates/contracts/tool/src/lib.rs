//! The tool contract: what the model may call, checked and run in one place.
//!
//! Decision: a tool never returns `Err`. Whatever goes wrong is a [`ToolResult`] that the model
//! reads and can react to. [`Registry::run`] is the only way a call is executed: it casts and
//! validates the arguments along the schema, so that a tool sees only what it asked for.

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

/// Something the model can call.
#[async_trait]
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// What the model is told about it. Stays the same for the life of the tool, to the byte.
    fn spec(&self) -> &ToolSpec;

    /// Runs it. `arguments` is an object that fits the schema. Ends soon after
    /// [`ToolContext::cancel`] fires, leaving nothing running.
    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult;
}
