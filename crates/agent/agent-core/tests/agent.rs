//! The agent against scripted models.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

#[path = "agent/addresses.rs"]
mod addresses;
#[path = "agent/attempts.rs"]
mod attempts;
#[path = "agent/backlog.rs"]
mod backlog;
#[path = "agent/blame.rs"]
mod blame;
#[path = "agent/commands.rs"]
mod commands;
#[path = "agent/consolidation.rs"]
mod consolidation;
#[path = "agent/crashes.rs"]
mod crashes;
#[path = "agent/disks.rs"]
mod disks;
#[path = "agent/heartbeat.rs"]
mod heartbeat;
#[path = "agent/job_failures.rs"]
mod job_failures;
#[path = "agent/lanes.rs"]
mod lanes;
#[path = "agent/permits.rs"]
mod permits;
#[path = "agent/questions.rs"]
mod questions;
#[path = "agent/replays.rs"]
mod replays;
#[path = "agent/served_window.rs"]
mod served_window;
#[path = "agent/skills.rs"]
mod skills;
#[path = "agent/subagents.rs"]
mod subagents;
#[path = "agent/turns.rs"]
mod turns;
#[path = "agent/undo.rs"]
mod undo;
#[path = "agent/world.rs"]
mod world;
