//! Measurements against floor programs.
//!
//! Decision: the shipped binary is measured from outside, alternating with programs that do only
//! the same work (`floor-version`, `floor-turn`), so that a ratio means the same on every machine.
//! Every process runs below `meter`, which reports what the kernel counted for it. The model is the
//! scripted server of `testkit` and the platforms are their fakes, all in the driver's process.
//! Nothing is asserted: the driver prints a table for people to judge. `docs/performance.md` has
//! the latest one.
//!
//! Linux only: it reads `/proc`.

mod usage;

#[cfg(target_os = "linux")]
mod durability;
#[cfg(target_os = "linux")]
mod gateway;
#[cfg(target_os = "linux")]
mod home;
#[cfg(target_os = "linux")]
mod model;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod terminal;

#[cfg(target_os = "linux")]
pub use durability::{DurabilityPlan, measure_durability};
#[cfg(target_os = "linux")]
pub use rows::{BenchPlan, Measurement, measure};
#[cfg(target_os = "linux")]
pub use table::{ReportRow, ReportTable};
pub use usage::{ProcessUsage, ReadUsageError};
