//! Disks for tests: one that fails on request, and one that loses unsynced data in a power cut.

mod faulty;
mod memory;

pub use faulty::{DiskFault, FaultyDisk};
pub use memory::MemoryDisk;
