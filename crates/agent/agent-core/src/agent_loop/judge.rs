//! What of an answer that nobody asked for is told.

use async_trait::async_trait;

/// Decides what a person is told of the work of a heartbeat.
#[async_trait]
pub trait Judge: Send + Sync + std::fmt::Debug {
    /// What of `answer` to `task` is to be sent; `None` for nothing. May be asked again about the
    /// same answer after a crash.
    async fn worth_telling(&self, task: &str, answer: &str) -> Option<String>;
}
