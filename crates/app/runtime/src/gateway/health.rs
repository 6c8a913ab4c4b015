//! State of the gateway's channels, for the health endpoint and for other commands.

use std::time::Instant;

use nanobot_channels::{Health, HealthState};
use nanobot_control::{ChannelState, Channels};
use nanobot_server::{ChannelHealth, HealthReport, HealthSource};

/// Source of the health of the gateway and its channels.
#[derive(Clone, Debug)]
pub(crate) struct GatewayHealth {
    pub(crate) channels: Health,
    pub(crate) started: Instant,
}

impl HealthSource for GatewayHealth {
    fn health(&self) -> HealthReport {
        let health = |ChannelState {
                          name,
                          state,
                          why,
                          since,
                      }| (name, ChannelHealth { state, why, since });
        HealthReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            channels: self.states().into_iter().map(health).collect(),
        }
    }
}

impl Channels for GatewayHealth {
    fn states(&self) -> Vec<ChannelState> {
        let state = |(name, health)| {
            let (state, why, since) = match health {
                HealthState::Starting => ("starting", None, None),
                HealthState::Running => ("running", None, None),
                HealthState::Degraded { why, since } => ("degraded", Some(why), Some(since)),
                HealthState::Failed { why } => ("failed", Some(why), None),
            };
            ChannelState {
                name,
                state: state.to_owned(),
                why,
                since,
            }
        };
        self.channels.snapshot().into_iter().map(state).collect()
    }
}
