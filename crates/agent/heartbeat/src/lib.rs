//! Reads `HEARTBEAT.md` periodically, and starts a turn when one of its tasks is due.
//!
//! Decision: the file is parsed without a model, so that a file without tasks costs nothing.
//! Otherwise a small request asks a model whether a task is due. Only then a turn runs, as a
//! message on the bus like any other. Its reply is sent to the user only if it is worth reading
//! ([`Evaluator`]). Silence is decided here, so that its markers never reach the user.

mod decision;
mod evaluation;
mod query;
mod service;
mod tasks;

pub use decision::{Decider, Decision};
pub use evaluation::Evaluator;
pub use service::{
    HeartbeatOutcome, HeartbeatParts, HeartbeatService, HeartbeatSettings, HeartbeatTargets,
    MAX_FILE_BYTES,
};
pub use tasks::active_tasks;
