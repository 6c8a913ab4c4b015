//! A channel as handed to the manager: with its settings and the means to keep it running.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelError, ChannelName};
use tokio::sync::watch;

use crate::{ChannelSettings, PairingStore};

/// Rebuilds a channel.
pub(crate) type Remake = Arc<dyn Fn() -> Result<Arc<dyn Channel>, ChannelError> + Send + Sync>;

/// A channel and its settings.
#[derive(Clone)]
pub struct ManagedChannel {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) settings: watch::Receiver<ChannelSettings>,
    pub(crate) pairing: Option<PairingStore>,
    pub(crate) remake: Option<Remake>,
    pub(crate) claim: Option<PathBuf>,
}

impl ManagedChannel {
    /// Creates a channel with live settings: a new value applies from the next message on.
    #[must_use]
    pub fn new(channel: Arc<dyn Channel>, settings: watch::Receiver<ChannelSettings>) -> Self {
        Self {
            channel,
            settings,
            pairing: None,
            remake: None,
            claim: None,
        }
    }

    /// Creates a channel with fixed settings.
    #[must_use]
    pub fn fixed(channel: Arc<dyn Channel>, settings: ChannelSettings) -> Self {
        // A receiver keeps the last value when its sender is gone.
        Self::new(channel, watch::channel(settings).1)
    }

    /// Pairs strangers through `store`. Without a store, only allowlists grant access.
    #[must_use]
    pub fn pairing_by(self, store: PairingStore) -> Self {
        Self {
            pairing: Some(store),
            ..self
        }
    }

    /// Rebuilds the channel, and drops everything it holds open, when it hangs or panics. Without
    /// this the same channel is run again.
    #[must_use]
    pub fn made_by(
        self,
        remake: impl Fn() -> Result<Arc<dyn Channel>, ChannelError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            remake: Some(Arc::new(remake)),
            ..self
        }
    }

    /// Lets the channel receive only while it holds the lock on this file, so that no two programs
    /// on this computer receive for one account.
    #[must_use]
    pub fn claiming(self, lock: PathBuf) -> Self {
        Self {
            claim: Some(lock),
            ..self
        }
    }

    /// Returns the channel itself.
    #[must_use]
    pub fn channel(&self) -> &Arc<dyn Channel> {
        &self.channel
    }

    /// Returns the channel's name.
    #[must_use]
    pub fn name(&self) -> &ChannelName {
        self.channel.name()
    }
}

impl fmt::Debug for ManagedChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedChannel")
            .field("channel", &self.channel)
            .field("claim", &self.claim)
            .finish_non_exhaustive()
    }
}
