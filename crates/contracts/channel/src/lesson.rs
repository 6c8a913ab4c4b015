//! Keys that a person cannot be asked for, because only the platform knows them.

use async_trait::async_trait;

use crate::ChannelError;

/// A task for a person, by which a key of the section can be learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The key of the section (`authservId`).
    pub key: &'static str,
    /// Purpose of the key, and the steps to take.
    pub text: String,
}

/// Learns a key of the channel's section from something that a person does on the platform.
#[async_trait]
pub trait Lesson: Send + Sync {
    /// Returns what to do; `code` is a random word by which it is recognized. `None` when nothing is
    /// missing.
    fn task(&self, code: &str) -> Option<Task>;

    /// Waits until the person has done it, and returns the value of the key. Changes nothing on the
    /// platform. Without any limit: the caller gives up by dropping it.
    ///
    /// # Errors
    /// Why it cannot be learned.
    async fn learn(&self, code: &str) -> Result<String, ChannelError>;
}
