//! Jobs that come due.
//!
//! Decision: what an expression means is decided here, the way the Python program means it, and
//! `croner` only searches; the clock is a trait, so years pass in a test. A job that is due becomes
//! a message on the bus, and from there on is like any other. Nothing here knows configuration
//! files or models.

mod expression;
mod interval;
mod job;
mod manage;
mod plan;
mod schedule;
mod service;
mod store;
mod tool;
mod zone;

pub use interval::interval_seconds;
pub use job::{
    Catchup, Job, JobState, Jobs, Overlap, Payload, RunRecord, RunStatus, Running, When, in_words,
};
pub use manage::time_in;
pub use schedule::{CronExpression, Schedule, ScheduleError};
pub use service::{Clock, CronParts, CronService, CronSettings, Runs, SystemClock};
pub use store::{CronError, JobStore, LONGEST_MESSAGE};
pub use tool::{CronArguments, CronTool, Owners};
pub use zone::{Zone, host_zone, zone_named};
