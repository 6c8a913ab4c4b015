//! Filter for the replies of heartbeats.

use async_trait::async_trait;

/// Decides whether the reply of a heartbeat is sent to the user.
#[async_trait]
pub trait HeartbeatFilter: Send + Sync + std::fmt::Debug {
    /// Returns the text to send, based on the `answer` to `task`, or `None` to send nothing. May be
    /// called again for the same answer after a crash.
    async fn filter(&self, task: &str, answer: &str) -> Option<String>;
}
