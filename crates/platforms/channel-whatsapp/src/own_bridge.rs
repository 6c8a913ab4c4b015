//! The bridge that nanobot installed, starts and stops.
//!
//! Decision: it runs for as long as one connection. A bridge that ended or hangs is then replaced
//! at the pace of connections. A lock keeps the next one waiting until the last one has ended.

use std::path::Path;
use std::sync::Arc;

use nanobot_channel::{ChannelError, ChannelName};
use nanobot_whatsapp_bridge::{Bridge, BridgeError, RunningBridge};
use tokio::sync::OwnedMutexGuard;

use crate::Secret;
use crate::channel::KIND;
use crate::handshake::BridgeAddress;
use crate::state::{Link, State};

/// The place of a bridge, installed or not.
#[derive(Clone, Debug)]
pub(crate) struct OwnBridge {
    pub(crate) bridge: Bridge,
    /// Held while the bridge runs in this process.
    place: Arc<tokio::sync::Mutex<()>>,
}

/// A bridge that runs.
#[derive(Debug)]
pub(crate) struct StartedBridge {
    running: RunningBridge,
    _place: OwnedMutexGuard<()>,
}

impl OwnBridge {
    /// Creates the place of the bridge of a channel. Does no I/O.
    pub(crate) fn new(data_dir: &Path, name: &ChannelName) -> Self {
        let instance = Some(name.as_str()).filter(|name| *name != KIND);
        Self::of(Bridge::new(data_dir, instance))
    }

    pub(crate) fn of(bridge: Bridge) -> Self {
        Self {
            bridge,
            place: Arc::default(),
        }
    }

    /// Replaces an installed version of the bridge by the one that belongs to this program.
    ///
    /// # Errors
    /// Returns [`BridgeError::Process`] for any failure: it may be the network, so the channel
    /// tries again.
    pub(crate) async fn update(&self, channel: &ChannelName) -> Result<(), BridgeError> {
        tracing::info!(%channel, "the WhatsApp bridge is outdated; its new version is installed");
        let progress = |step: &str| tracing::info!(%channel, step, "updating the WhatsApp bridge");
        // A large future, which would be part of every caller.
        let updated = Box::pin(self.bridge.install(&progress)).await;
        updated.map_err(|error| BridgeError::Process(format!("cannot be updated: {error}")))
    }

    /// Starts the bridge.
    pub(crate) async fn start(&self) -> Result<StartedBridge, BridgeError> {
        let place = Arc::clone(&self.place).lock_owned().await;
        Ok(StartedBridge {
            // A large future, which would be part of every caller.
            running: Box::pin(self.bridge.start()).await?,
            _place: place,
        })
    }

    /// Keeps the account for commands that cannot ask the bridge.
    pub(crate) async fn note(&self, state: &State) {
        let account = match (&state.link, &state.account) {
            // An empty note means that no account is linked.
            (Link::Unlinked, _) => String::new(),
            (_, Some(account)) => account.shown(),
            (_, None) => return,
        };
        if let Err(error) = self.bridge.note_account(&account).await {
            tracing::debug!(%error, "the account of the bridge could not be noted");
        }
    }
}

impl StartedBridge {
    /// Returns the address of the bridge and the token for it.
    pub(crate) fn address(&self) -> BridgeAddress {
        BridgeAddress {
            url: self.running.url().to_owned(),
            token: Secret::new(self.running.token()),
            is_own: true,
        }
    }

    /// Waits until the bridge ended by itself, and returns why. Cancel safe.
    pub(crate) async fn ended(&mut self) -> String {
        self.running.ended().await.to_string()
    }

    /// Ends the bridge.
    pub(crate) async fn stop(self) {
        self.running.stop().await;
    }
}

/// Waits until a bridge ended by itself; for ever without one.
pub(crate) async fn ended(bridge: Option<&mut StartedBridge>) -> String {
    match bridge {
        Some(bridge) => bridge.ended().await,
        None => std::future::pending().await,
    }
}

/// Returns the error of a bridge that cannot be used.
pub(crate) fn start_error(error: BridgeError) -> ChannelError {
    match error {
        // Something is missing on the computer, and no key is at fault.
        BridgeError::Install(why) => ChannelError::Config {
            key: String::new(),
            message: why,
        },
        BridgeError::InUse => {
            let why = "another nanobot runs the bridge of this account";
            ChannelError::Conflict(why.to_owned())
        }
        error @ BridgeError::Process(_) => ChannelError::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_right_meaning() {
        let config = start_error(BridgeError::Install("install Node.js".to_owned()));
        assert_eq!(config.to_string(), "install Node.js");
        let rival = start_error(BridgeError::InUse);
        assert!(matches!(rival, ChannelError::Conflict(_)), "{rival}");
        let ended = start_error(BridgeError::Process("ended".to_owned()));
        assert!(matches!(ended, ChannelError::Unavailable(_)), "{ended}");
    }
}
