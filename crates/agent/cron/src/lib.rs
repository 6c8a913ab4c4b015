//! Scheduled jobs.
//!
//! Decision: this crate defines the meaning of an expression, which is the Python program's, and
//! `croner` only searches for matching times. The clock is a trait, so that a test can let years
//! pass. A job that is due becomes a message on the bus, and is treated like any other from there
//! on. The crate knows nothing of configuration files or models.

mod expression;
mod host;
mod interval;
mod job;
mod manage;
mod moment;
mod plan;
mod schedule;
mod service;
mod store;
mod tool;
mod unseen;
mod zone;

pub use host::JobHost;
pub use interval::interval_seconds;
pub use job::{
    Catchup, Job, JobSchedule, JobState, Jobs, Overlap, Payload, RunRecord, RunStatus, RunningJob,
    format_time,
};
pub use moment::{due_time, time_after, time_in};
pub use schedule::{CronExpression, Schedule, ScheduleError};
pub use service::{Clock, CronParts, CronService, CronSettings, RunOutcomes, SystemClock};
pub use store::{CronError, JobStore, MAX_MESSAGE_CHARS};
pub use tool::{CronArguments, CronTool, SessionOwners};
pub use unseen::{UnseenResult, job_of_turn, run_of_turn};
pub use zone::{Zone, host_zone, zone_named};
