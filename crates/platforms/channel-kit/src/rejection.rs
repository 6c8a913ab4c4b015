//! A send that the platform refused because of the credentials ends the run.

use nanobot_channel::ChannelError;
use tokio::sync::watch;

/// The reason why the platform rejects the credentials, once a send was refused for them.
///
/// Receiving would go on for as long as the connection lives, and the channel would look healthy.
#[derive(Clone, Debug, Default)]
pub struct Rejection(watch::Sender<Option<String>>);

impl Rejection {
    /// Forgets the reason, at the begin of a run.
    pub fn clear(&self) {
        self.0.send_replace(None);
    }

    /// Notes the reason if this is [`ChannelError::Auth`].
    pub fn observe(&self, error: &ChannelError) {
        if let ChannelError::Auth(why) = error {
            self.0.send_replace(Some(why.clone()));
        }
    }

    /// Waits until there is a reason. Cancel safe.
    pub async fn wait(&self) -> ChannelError {
        let mut changes = self.0.subscribe();
        // This is the sender, so it cannot be closed.
        let why = changes.wait_for(Option::is_some).await;
        let why = why.map(|why| why.clone()).unwrap_or_default();
        ChannelError::Auth(why.unwrap_or_default())
    }
}
