//! The strictest profile: a process that only computes, from its input to its output.

#[cfg(target_os = "linux")]
use crate::{landlock_rules, seccomp};

/// Takes from this process what a parser of foreign formats does not need: it can open no file and
/// no socket, start no process, and signal or inspect none. Open descriptors and new threads keep
/// working. Call it before other threads are started; it cannot be undone.
///
/// On systems other than Linux this does nothing.
///
/// # Errors
/// Returns the reason if the kernel has no filters of system calls. Landlock adds a second barrier
/// where the kernel has it.
pub fn confine_reader() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    {
        if landlock_rules::is_available() {
            landlock_rules::confine_to_nothing()?;
        }
        seccomp::confine_reader()?;
    }
    Ok(())
}
