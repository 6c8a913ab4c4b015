//! Resource limits that the helper sets on itself.
//!
//! Decision: CPU time and memory have a soft limit, which the helper raises for each document, and
//! a hard limit for its whole life, which it cannot raise. After the limits are set, no thread has
//! to be started and no file has to be opened.

/// CPU time for one document, in seconds.
const SECONDS: u64 = 5;
/// CPU time after which a helper accepts no more documents, in seconds.
const WORN_OUT: u64 = 30;
/// Address space in addition to that of the document, in bytes: the program, the stack, and the
/// work on a small document.
const MEMORY: usize = 512 << 20;
/// Address space for each byte of a document, in bytes.
const MEMORY_FOR_BYTE: usize = 6;

#[cfg(unix)]
mod unix {
    use nix::sys::resource::{Resource, UsageWho, getrusage, rlim_t, setrlimit};

    use super::{MEMORY, MEMORY_FOR_BYTE, SECONDS, WORN_OUT};
    use crate::helper::MAX_DOCUMENT;

    /// Maximum number of open files: the two pipes and the null device.
    const FILES: rlim_t = 3;

    /// Closes all inherited descriptors except the standard streams.
    pub(crate) fn close_inherited() {
        let folder = if cfg!(target_os = "linux") {
            "/proc/self/fd"
        } else {
            "/dev/fd"
        };
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        let names =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let inherited: Vec<i32> = names.filter(|number| *number > 2).collect();
        for number in inherited {
            // One of them belongs to the listing of the folder itself and is already closed.
            nix::unistd::close(number).ok();
        }
    }

    /// Sets the limits for the whole life of the process.
    pub(crate) fn begin() -> nix::Result<()> {
        #[cfg(target_os = "linux")]
        {
            nix::sys::prctl::set_dumpable(false)?;
            nix::sys::prctl::set_no_new_privs()?;
        }
        for (resource, limit) in [
            (Resource::RLIMIT_CORE, 0),
            (Resource::RLIMIT_FSIZE, 0),
            (Resource::RLIMIT_NOFILE, FILES),
            (Resource::RLIMIT_NPROC, 0),
        ] {
            setrlimit(resource, limit, limit)?;
        }
        begin_document(0)
    }

    /// Sets the limits for a document of `size` bytes.
    pub(crate) fn begin_document(size: usize) -> nix::Result<()> {
        setrlimit(
            Resource::RLIMIT_CPU,
            number(used() + SECONDS + 1),
            number(WORN_OUT + 2 * SECONDS + 2),
        )?;
        let memory =
            |size: usize| number(MEMORY.saturating_add(size.saturating_mul(MEMORY_FOR_BYTE)));
        let limited = setrlimit(Resource::RLIMIT_AS, memory(size), memory(MAX_DOCUMENT));
        // On other platforms a process starts with more address space than the limit.
        if cfg!(target_os = "linux") {
            limited
        } else {
            Ok(())
        }
    }

    /// Returns `true` if the process has used up its CPU time and must be replaced.
    pub(crate) fn is_worn_out() -> bool {
        used() >= WORN_OUT
    }

    /// Returns the CPU time used so far, in seconds.
    fn used() -> u64 {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return WORN_OUT;
        };
        let seconds = usage.user_time().tv_sec() + usage.system_time().tv_sec();
        u64::try_from(seconds).unwrap_or(WORN_OUT)
    }

    fn number<T: TryInto<rlim_t>>(value: T) -> rlim_t {
        value.try_into().unwrap_or(rlim_t::MAX)
    }
}

#[cfg(unix)]
pub(super) use unix::{begin, begin_document, close_inherited, is_worn_out};

#[cfg(not(unix))]
mod other {
    //! Platforms without resource limits. Only the parent's limits apply: the timeout and the size
    //! of the response.

    use std::io;

    pub(crate) fn close_inherited() {}

    pub(crate) fn begin() -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn begin_document(_size: usize) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn is_worn_out() -> bool {
        false
    }
}

#[cfg(not(unix))]
pub(super) use other::{begin, begin_document, close_inherited, is_worn_out};
