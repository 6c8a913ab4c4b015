//! Reports when files may have changed, without constant polling.
//!
//! Decision: the system's notifier watches the folders that contain the files, because editors, and
//! our own stores, replace a file by renaming a new one over it. A notification only means that the
//! file may have changed; the caller compares its content with the last known one. A superfluous
//! notification therefore costs one read. A lost one costs only time, because every file is also
//! reported every 30 seconds: some file systems send no notifications. If the system cannot watch a
//! folder at all, the interval is half a second.

mod folder;
mod followed;
mod watch;

pub use watch::{FileChanges, FileWatch};
