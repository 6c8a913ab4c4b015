//! Connects an agent to a bus: routing, lanes, commands, replies.
//!
//! Decision: every session has a lane. A lane has a task only while it has work, so an idle
//! assistant holds nothing but the subscription. Messages of one session are handled in order;
//! lanes run in parallel under the agent's cap. Messages that do not fit into a lane stay in the
//! ledger. Turn details and failover are handled elsewhere.

mod answers;
mod blame;
mod commands;
mod heartbeat_filter;
mod lane;
mod pump;
mod shared;
mod subagent;
mod waiting_line;

use std::time::Duration;

pub use commands::{
    Command, CommandContext, CommandReply, CommandTable, CommandTiming, DuplicateCommand,
};
pub use heartbeat_filter::HeartbeatFilter;
pub use pump::AgentLoop;

/// Settings of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSettings {
    /// Maximum number of messages that wait in one lane; more stay in the ledger.
    pub lane_bound: usize,
    /// Delay before a message that did not fit is redelivered.
    pub redelivery_delay: Duration,
    /// Grace period for running turns when the assistant shuts down.
    pub grace: Duration,
    /// Maximum number of attempts per message. Every recorded step of its turn allows one more
    /// attempt.
    pub max_attempts: u32,
}

impl Default for LoopSettings {
    /// 64 messages per lane, 5 s delay, 10 s grace, 3 attempts.
    fn default() -> Self {
        Self {
            lane_bound: 64,
            redelivery_delay: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            max_attempts: 3,
        }
    }
}
