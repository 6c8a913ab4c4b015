//! A channel as the manager is given it: with its settings, and what is needed to keep it running.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelError, ChannelName};
use tokio::sync::watch;

use crate::{ChannelSettings, PairingStore};

/// Makes a channel anew.
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
    /// A channel whose settings may change: a new value counts from the next message on.
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

    /// A channel whose settings stay as they are.
    #[must_use]
    pub fn fixed(channel: Arc<dyn Channel>, settings: ChannelSettings) -> Self {
        // A receiver keeps the last value when its sender is gone.
        Self::new(channel, watch::channel(settings).1)
    }

    /// The same where strangers are paired by this store. Without one, only lists let people in.
    #[must_use]
    pub fn pairing_by(self, store: PairingStore) -> Self {
        Self {
            pairing: Some(store),
            ..self
        }
    }

    /// The same that is made anew, and with it all that it holds open, when it hangs or panics.
    /// Without this the same one is run again.
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

    /// The same that receives only while it has the lock on this file, so that no two programs on
    /// this computer receive for one account.
    #[must_use]
    pub fn claiming(self, lock: PathBuf) -> Self {
        Self {
            claim: Some(lock),
            ..self
        }
    }

    /// The channel by itself.
    #[must_use]
    pub fn channel(&self) -> &Arc<dyn Channel> {
        &self.channel
    }

    /// Its name.
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
