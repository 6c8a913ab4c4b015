//! Configuration keys that a person cannot enter, because only the platform knows their value.

use async_trait::async_trait;

use crate::ChannelError;

/// A task for a person, through which a key of the section is learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupTask {
    /// The key of the section (`authservId`).
    pub key: &'static str,
    /// Purpose of the key, and the steps to take.
    pub text: String,
}

/// Learns a key of the channel's section from an action of a person on the platform.
#[async_trait]
pub trait KeyDiscovery: Send + Sync {
    /// Returns the task; `code` is a random word by which the action is recognised. `None` if no
    /// key is missing.
    fn task(&self, code: &str) -> Option<SetupTask>;

    /// Waits until the person has done the task, and returns the value of the key. Changes nothing
    /// on the platform. There is no timeout: the caller cancels by dropping the future.
    ///
    /// # Errors
    /// Returns an error if the key cannot be learned.
    async fn discover(&self, code: &str) -> Result<String, ChannelError>;
}
