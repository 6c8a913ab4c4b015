//! Observer of every tool run.
//!
//! Decision: the registry notifies the watch, because every call goes through it. A watch observes
//! and changes nothing. The result waits for it, so that no notification of a finished turn is
//! still pending.

use std::time::Duration;

use async_trait::async_trait;
use nanobot_types::{Effect, ToolCall, ToolResult};

use crate::ToolContext;

/// One call and its result, including calls that were refused.
#[derive(Clone, Copy, Debug)]
pub struct ToolRun<'a> {
    /// The call, as the model made it; the inner call of a `tool_call`.
    pub call: &'a ToolCall,
    /// Effect of running it again; `None` for an unknown tool.
    pub effect: Option<Effect>,
    /// Context of the call.
    pub context: &'a ToolContext,
    /// The result that the model reads.
    pub result: &'a ToolResult,
    /// Run time of the call.
    pub elapsed: Duration,
}

/// Observes every run.
#[async_trait]
pub trait ToolWatch: Send + Sync + std::fmt::Debug {
    /// Records a run. Must return soon in every case, because the turn waits for it.
    async fn ran(&self, run: ToolRun<'_>);
}
