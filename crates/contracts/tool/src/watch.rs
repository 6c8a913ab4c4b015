//! Who is told of every run of a tool.
//!
//! Decision: the registry tells, because every call goes through it, whoever makes the call. A
//! watch learns what happened and changes nothing; the answer waits for it, so that nothing of a
//! finished turn is still on its way.

use std::time::Duration;

use async_trait::async_trait;
use nanobot_types::{Effect, ToolCall, ToolResult};

use crate::ToolContext;

/// One call and what came of it, calls that were refused included.
#[derive(Clone, Copy, Debug)]
pub struct ToolRun<'a> {
    /// The call, as the model made it.
    pub call: &'a ToolCall,
    /// What running it again would do; `None` for a tool that there is not.
    pub effect: Option<Effect>,
    /// Its circumstances.
    pub context: &'a ToolContext,
    /// What the model reads.
    pub result: &'a ToolResult,
    /// How long it took.
    pub elapsed: Duration,
}

/// Is told of every run.
#[async_trait]
pub trait ToolWatch: Send + Sync + std::fmt::Debug {
    /// Takes note of a run. Has to return soon, whatever happens: a turn waits.
    async fn ran(&self, run: ToolRun<'_>);
}
