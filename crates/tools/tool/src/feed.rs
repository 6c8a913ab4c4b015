//! A source of tools that come and go while the program runs.
//!
//! Decision: the registry asks the feed, and the feed does not change the registry. So one feed
//! serves several registries, and the tools of a request change only between turns.

use std::sync::Arc;

use async_trait::async_trait;

use crate::Tool;

/// Returns the present tools of a source.
#[async_trait]
pub trait ToolFeed: Send + Sync + std::fmt::Debug {
    /// Returns the tools, in order. A tool that did not change is the same allocation as before;
    /// a registry compares nothing else. Called before every turn and before calls, so it has to be
    /// fast if nothing changed, and bounded in time otherwise.
    async fn tools(&self) -> Vec<Arc<dyn Tool>>;
}
