//! The tools of an assistant, in the order in which requests list them.

use std::sync::{Arc, PoisonError, RwLock};

use nanobot_types::{Effect, ToolCall, ToolName, ToolResult, ToolSource, ToolSpec};

use crate::{Tool, ToolContext};

/// What is put behind every error that begins with `Error`.
pub const ERROR_HINT: &str = "\n\n[Analyze the error above and try a different approach.]";

/// Why a tool could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The name is taken; the tool that has it keeps it.
    #[error("a tool named {name} is registered already")]
    NameTaken {
        /// The name.
        name: ToolName,
    },
}

/// The tools of an assistant.
#[derive(Debug, Default)]
pub struct Registry {
    tools: RwLock<Vec<Arc<dyn Tool>>>,
}
