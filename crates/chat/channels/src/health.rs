//! How the channels are.

use std::collections::BTreeMap;
use std::sync::Arc;

use nanobot_channel::{ChannelName, Timestamp};
use serde::Serialize;
use tokio::sync::watch;

/// How a channel is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HealthState {
    /// It was started and gave no sign of life yet.
    Starting,
    /// It receives.
    Running,
    /// It does not receive, or not fully; it is being tried.
    Degraded {
        /// What is wrong.
        why: String,
        /// Since when it has not been well.
        since: Timestamp,
    },
    /// It does not run until somebody changes something; that is looked for rarely.
    Failed {
        /// What is wrong.
        why: String,
    },
}

/// The health of every configured channel, by name.
pub type HealthMap = BTreeMap<ChannelName, HealthState>;

/// A handle on the health of all channels; clones see the same.
#[derive(Clone, Debug, Default)]
pub struct Health {
    map: Arc<watch::Sender<HealthMap>>,
}

impl Health {
    /// How they are now.
    #[must_use]
    pub fn snapshot(&self) -> HealthMap {
        self.map.borrow().clone()
    }

    /// Sees every change from now on; the newest only, for those who look late.
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

    /// It receives. Returns what it was before, if that was something else.
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

    /// There is no such channel any more.
    pub(crate) fn forget(&self, name: &ChannelName) {
        self.map.send_if_modified(|map| map.remove(name).is_some());
    }

    /// It is not well; since when is kept from the first time on.
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
