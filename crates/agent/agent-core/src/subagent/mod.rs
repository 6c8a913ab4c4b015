//! Subagents: tasks that run next to a conversation, in sessions of their own.
//!
//! Decision: a task is a message, and so is its result. Both stay in the ledger until they are
//! settled. Their ids are derived from the turn and the position of the call that started the task,
//! so neither is lost or duplicated by a restart. The work itself is an ordinary turn with an
//! ordinary session log, which resumes like any other. The end recorded in that log is
//! authoritative for how a subagent ended. [`Subagents`] tracks the running subagents in memory
//! only.
//!
//! A subagent has no tool to talk to people or to start other subagents.

mod direct;
mod end;
mod roster;
mod spawn_tool;
mod spawner;
mod subagents;
mod task;

pub use direct::DirectSpawner;
pub use end::SubagentEnd;
pub use roster::{SubagentInfo, SubagentState};
pub use spawn_tool::SpawnTool;
pub use spawner::{BusSpawner, SpawnError, Spawner, Started};
pub use subagents::{SubagentSettings, Subagents};
pub use task::{SubagentTask, is_subagent_session};

pub(crate) use task::{account_of, is_note, job_of, reported_by};
