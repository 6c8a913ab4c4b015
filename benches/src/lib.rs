//! Measurements against floor programs.
//!
//! Decision: the thing measured is the shipped binary, from outside, in turn with programs that do
//! the same with nothing else (`floor-version`, `floor-turn`), so that a number means the same on
//! every machine. Every process runs below `meter`, which reports what the kernel counted for it.
//! The model and Telegram are `testkit`'s, in the process of the driver. Nothing is asserted: the
//! driver prints a table, and people judge. `docs/performance.md` has the last one.
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
pub use durability::{DurabilityPlan, measure_durability};
#[cfg(target_os = "linux")]
pub use rows::{Measurement, Plan, measure};
#[cfg(target_os = "linux")]
pub use table::{Row, Table};
pub use usage::{ReadUsageError, Usage};
