//! Disks that fail, and a disk that forgets what was not synced.

mod faulty;
mod memory;

pub use faulty::{Fault, FaultyDisk};
pub use memory::MemoryDisk;
