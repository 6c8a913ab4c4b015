//! Logins that need actions of a person on the platform, such as the scan of a code.

use async_trait::async_trait;

use crate::ChannelError;

/// Logs the channel in, with a person who acts on the platform at the same time. What the login
/// yields, such as keys, is kept in the channel's own folder.
#[async_trait]
pub trait SignIn: Send + Sync {
    /// Logs in, and returns the account (`@bot`). A channel that is logged in already returns its
    /// account without asking anything. There is no timeout: the caller cancels by dropping the
    /// future.
    ///
    /// # Errors
    /// Returns an error if the login failed.
    async fn sign_in(&self, prompt: &dyn SignInPrompt) -> Result<String, ChannelError>;
}

/// The terminal of the person who logs a channel in.
#[async_trait]
pub trait SignInPrompt: Send + Sync {
    /// Shows a line: a step that was done, or one that the person has to do.
    fn show(&self, text: &str);

    /// Shows a text as a QR code. A later code replaces it.
    fn show_code(&self, text: &str);

    /// Asks a question, and waits for the answer. Returns `true` only for a yes, and `false` if
    /// there is no one to ask.
    async fn confirm(&self, question: &str) -> bool;
}
