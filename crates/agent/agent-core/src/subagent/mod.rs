//! Subagents: tasks that are worked on beside a conversation, in sessions of their own.
//!
//! Decision: a task is a message and so is its result. Both are in the ledger until they are
//! settled, under names made of the turn and the place of the call that asked for them, so neither
//! is lost by a restart and neither comes twice. The work itself is an ordinary turn with an
//! ordinary session log, which resumes like any other; the end of that log is the one truth about
//! how a subagent ended. [`Subagents`] knows who is at work now and forgets it with the process.
//!
//! A subagent has no tool that would let it talk to people or start others.

mod direct;
mod end;
mod roster;
mod spawn_tool;
mod spawner;
mod task;
mod work;

pub use direct::DirectSpawner;
pub use end::SubagentEnd;
pub use roster::{SubagentInfo, SubagentState};
pub use spawn_tool::SpawnTool;
pub use spawner::{BusSpawner, SpawnError, Spawner, Started};
pub use task::{SubagentTask, is_subagent_session};
pub use work::{SubagentSettings, Subagents};

pub(crate) use task::{is_note, reported_by};
