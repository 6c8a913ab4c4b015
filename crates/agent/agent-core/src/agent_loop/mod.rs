//! Connects an agent to a bus: routing, lanes, commands, replies.
//!
//! Decision: every session has a lane, and a lane is a task only while it has work, so an idle
//! assistant holds nothing but the subscription. Messages of one session are handled in order;
//! lanes run beside each other under the agent's cap. What does not fit a lane stays in the
//! ledger. No turn detail and no failover live here.

mod blame;
mod commands;
mod judge;
mod lane;
mod line;
mod pump;
mod subagent;

use std::time::Duration;

pub use commands::{Command, CommandContext, CommandReply, CommandTable, DuplicateCommand, When};
pub use judge::Judge;
pub use pump::AgentLoop;

/// How the loop behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSettings {
    /// Messages that wait in one lane; more stay in the ledger.
    pub lane_bound: usize,
    /// How long a message that did not fit waits before it is offered again.
    pub full_pause: Duration,
    /// How long turns may go on when the assistant shuts down.
    pub grace: Duration,
    /// How often a message is tried before it is given up; every recorded step of its turn is
    /// worth one more attempt.
    pub attempts: u32,
}

impl Default for LoopSettings {
    /// 64 messages a lane, 5 s, 10 s of grace, 3 attempts.
    fn default() -> Self {
        Self {
            lane_bound: 64,
            full_pause: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            attempts: 3,
        }
    }
}
