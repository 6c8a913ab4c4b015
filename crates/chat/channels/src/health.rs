//! Health of the channels.

use std::collections::BTreeMap;
use std::sync::Arc;

use nanobot_channel::{ChannelName, Timestamp};
use serde::Serialize;
use tokio::sync::watch;

/// Health of one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HealthState {
    /// The channel was started and has given no sign of life yet.
    Starting,
    /// The channel receives.
    Running,
    /// The channel does not receive, or only in part; it is being restarted or retried.
    Degraded {
        /// Reason.
        why: String,
        /// Time since which the channel has not been healthy.
        since: Timestamp,
    },
    /// The channel cannot run until a person changes something; it is retried rarely.
    Failed {
        /// Reason.
        why: String,
    },
}

/// The health of every configured channel, by name.
pub type HealthMap = BTreeMap<ChannelName, HealthState>;

/// Handle on the health of all channels; clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Health {
    map: Arc<watch::Sender<HealthMap>>,
}

impl Health {
    /// Returns the current health of all channels.
    #[must_use]
    pub fn snapshot(&self) -> HealthMap {
        self.map.borrow().clone()
    }

    /// Subscribes to changes from now on. A slow receiver sees only the newest state.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<HealthMap> {
        self.map.subscribe()
    }

    pub(crate) fn set(&self, name: &ChannelName, state: HealthState) {
        self.map.send_if_modified(|map| {
            let changed = map.get(name) != Some(&state);
            if changed {
                map.insert(name.clone(), state);
            }
            changed
        });
    }

    /// Marks the channel as running. Returns its previous state if that was a different one.
    pub(crate) fn running(&self, name: &ChannelName) -> Option<HealthState> {
        let mut before = None;
        self.map.send_if_modified(|map| match map.get(name) {
            Some(HealthState::Running) => false,
            _ => {
                before = map.insert(name.clone(), HealthState::Running);
                true
            }
        });
        before
    }

    /// Removes a channel that no longer exists.
    pub(crate) fn forget(&self, name: &ChannelName) {
        self.map.send_if_modified(|map| map.remove(name).is_some());
    }

    /// Marks the channel as degraded. Keeps `since` if it was degraded already.
    pub(crate) fn degraded(&self, name: &ChannelName, why: &str) {
        self.map.send_if_modified(|map| {
            let since = match map.get(name) {
                Some(HealthState::Degraded { why: known, .. }) if known == why => return false,
                Some(HealthState::Degraded { since, .. }) => *since,
                _ => chrono::Local::now().fixed_offset(),
            };
            map.insert(
                name.clone(),
                HealthState::Degraded {
                    why: why.to_owned(),
                    since,
                },
            );
            true
        });
    }
}
