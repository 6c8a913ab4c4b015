//! What the endpoint shows.

use std::collections::BTreeMap;

use nanobot_types::{ChannelName, Timestamp};
use serde::Serialize;

/// How one channel does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChannelHealth {
    /// `starting`, `running`, `degraded` or `failed`.
    pub state: String,
    /// Why, where it is not running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Since when it is in that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// How the gateway does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HealthReport {
    /// Its version.
    pub version: String,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Its channels.
    pub channels: BTreeMap<ChannelName, ChannelHealth>,
}

impl HealthReport {
    /// Whether every channel works at least in part.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.channels
            .values()
            .all(|channel| channel.state != "failed")
    }
}

/// Knows how the gateway does.
pub trait HealthSource: Send + Sync {
    /// How it does now. Called per request; must not block.
    fn health(&self) -> HealthReport;
}
