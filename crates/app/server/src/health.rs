//! The health report.

use std::collections::BTreeMap;

use nanobot_types::{ChannelName, Timestamp};
use serde::Serialize;

/// Health of one channel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChannelHealth {
    /// `starting`, `running`, `degraded` or `failed`.
    pub state: String,
    /// Reason why it is not running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Time since which it has been in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// Health of the gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HealthReport {
    /// Version of the program.
    pub version: String,
    /// Uptime in seconds.
    pub uptime_s: u64,
    /// The channels by name.
    pub channels: BTreeMap<ChannelName, ChannelHealth>,
}

impl HealthReport {
    /// Returns `true` if no channel has failed.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.channels
            .values()
            .all(|channel| channel.state != "failed")
    }
}

/// Provides the health report.
pub trait HealthSource: Send + Sync {
    /// Returns the current report. Called for each request; must not block.
    fn health(&self) -> HealthReport;
}
