//! `meter REPORT PROGRAM [ARGUMENT…]`: runs a program and writes its resource usage to a file.
//!
//! Decision: each program is measured by a process of its own, because the kernel sums up the usage
//! of all children and keeps only the largest peak. The process is small, because a child starts as
//! a copy of it.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<ExitCode> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<ExitCode> {
    anyhow::bail!("measuring needs Linux")
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::PathBuf;
    use std::process::{Command, ExitCode};
    use std::time::Instant;

    use anyhow::Context as _;
    use nanobot_benches::ProcessUsage;
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;

    pub(super) fn main() -> anyhow::Result<ExitCode> {
        let mut arguments = std::env::args_os().skip(1);
        let report = arguments
            .next()
            .map(PathBuf::from)
            .context("no file for the report")?;
        let program = arguments.next().context("no program")?;
        let read_before = read_bytes()?;
        let begun = Instant::now();
        let mut child = Command::new(&program)
            .args(arguments)
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let status = child.wait()?;
        let wall_us = u64::try_from(begun.elapsed().as_micros())?;
        let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let cpu_us = (used.user_time() + used.system_time()).num_microseconds();
        let usage = ProcessUsage {
            exit_code: status.code().unwrap_or(-1),
            cpu_us: u64::try_from(cpu_us)?,
            wall_us,
            peak_rss_kib: u64::try_from(used.max_rss())?,
            read_bytes: read_bytes()?.saturating_sub(read_before),
        };
        usage.write(&report)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the bytes read by this process and by every child it has waited for.
    fn read_bytes() -> anyhow::Result<u64> {
        let text = std::fs::read_to_string("/proc/self/io")?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("rchar: "))
            .context("no rchar in /proc/self/io")?;
        Ok(value.trim().parse()?)
    }
}
