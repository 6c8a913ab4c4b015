//! Looks at `HEARTBEAT.md` from time to time, and has done what it asks for.
//!
//! Decision: the file is read here, without a model, so that a file in which nothing is to be done
//! costs nothing. Otherwise a model is asked in one small request whether anything is to be done
//! now; only then a turn runs, as a message on the bus like any other. What came of it is told to
//! a person only if it is worth that ([`Evaluator`]); silence is decided here, never by words that
//! a person could come to read.

mod ask;
mod decision;
mod evaluation;
mod service;
mod tasks;

pub use decision::{Decider, Decision};
pub use evaluation::Evaluator;
pub use service::{
    Beat, HeartbeatParts, HeartbeatService, HeartbeatSettings, LONGEST_FILE, Place, Places,
};
pub use tasks::active_tasks;
