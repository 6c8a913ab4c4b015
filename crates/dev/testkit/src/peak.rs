//! Measures how much memory a piece of work takes at its peak.
//!
//! Decision: the kernel counts, in a process of its own, because the tests of a program share one heap
//! and no allocator can be replaced without unsafe code. Only Linux counts so; elsewhere the work runs
//! and its peak is unknown.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::TestkitError;

/// Says to the process that it is the one in which the work of that name is measured.
const ROLE: &str = "NANOBOT_MEASURED_WORK";

/// Names the file into which that process writes what it measured.
const REPORT: &str = "NANOBOT_MEASURED_REPORT";

/// Ends a run that hangs. No measure of speed.
const HANG_GUARD: Duration = Duration::from_secs(240);

/// The most memory that work from outside may take beyond an idle process, in bytes.
pub const PEAK_LIMIT: u64 = 64 << 20;

/// Runs `work` in another process of this test program and returns by how many bytes its memory grew
/// at most; `None` where that cannot be known.
///
/// To be called by the test of the full name `test`, once.
///
/// # Errors
/// If the process cannot be started, fails, or is killed because it hangs.
pub fn peak_of(test: &str, work: impl FnOnce()) -> Result<Option<u64>, TestkitError> {
    if std::env::var_os(ROLE).is_some_and(|role| *role == *test) {
        let before = high_water();
        work();
        let grown = high_water()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        let line = grown.map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string());
        std::fs::write(std::env::var_os(REPORT).unwrap_or_default(), line)
            .map_err(|error| failed(test, &error))?;
        return Ok(grown);
    }
    let report = tempfile::NamedTempFile::new().map_err(|error| failed(test, &error))?;
    let program = std::env::current_exe().map_err(|error| failed(test, &error))?;
    let mut child = Command::new(program)
        .args([test, "--exact", "--test-threads=1", "--nocapture"])
        .env(ROLE, test)
        .env(REPORT, report.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(test, &error))?;
    finish(test, &mut child)?;
    let mut line = String::new();
    report
        .reopen()
        .and_then(|mut file| file.read_to_string(&mut line))
        .map_err(|error| failed(test, &error))?;
    if line.is_empty() {
        return Err(failed(test, &"no test has that name"));
    }
    Ok(line.parse().ok())
}

/// The processor time that one reading of hostile input may take: two seconds of a release build. A debug
/// build is up to ten times as slow.
pub const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

/// Has `run` take each of the inputs, in a process whose memory and processor time are measured.
///
/// To be called by the test of the full name `test`, once.
///
/// # Errors
/// As [`peak_of`], and where they are more than [`PEAK_LIMIT`] and [`TIME_LIMIT`].
pub fn check_bounded<T>(
    test: &str,
    inputs: impl IntoIterator<Item = T>,
    mut run: impl FnMut(T),
) -> Result<(), TestkitError> {
    let work = || {
        for (number, input) in inputs.into_iter().enumerate() {
            let before = processor_time();
            run(input);
            let spent = processor_time()
                .zip(before)
                .map(|(after, before)| after.saturating_sub(before));
            tracing::debug!(number, ?spent, "hostile input was read");
            let is_short = spent.is_none_or(|spent| spent <= TIME_LIMIT);
            assert!(is_short, "input {number} took {spent:?}");
        }
    };
    match peak_of(test, work)? {
        Some(peak) if peak > PEAK_LIMIT => Err(failed(test, &format!("it took {} MB", peak >> 20))),
        _ => Ok(()),
    }
}

fn finish(test: &str, child: &mut Child) -> Result<(), TestkitError> {
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| failed(test, &error))? {
            Some(status) => break status,
            None if began.elapsed() > HANG_GUARD => {
                child.kill().map_err(|error| failed(test, &error))?;
                return Err(failed(test, &"it hangs"));
            }
            None => std::thread::park_timeout(Duration::from_millis(20)),
        }
    };
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr
            .read_to_string(&mut words)
            .map_err(|error| failed(test, &error))?;
    }
    if status.success() {
        Ok(())
    } else {
        Err(failed(test, &format!("{status}: {words}")))
    }
}

/// The most memory that any process has had which this process started and waited for, in bytes;
/// `None` where the kernel does not count it.
///
/// Means something only inside the work of [`peak_of`]: elsewhere other tests start processes as well.
#[must_use]
pub fn peak_of_programs() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
        u64::try_from(usage.max_rss())
            .ok()
            .map(|kilobytes| kilobytes * 1024)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// The processor time that this process has taken so far, and the processes that it waited for; `None`
/// where the kernel does not count it. Other work on the machine hardly changes it, which makes it a
/// measure that tests can rely on.
///
/// Means something only inside the work of [`peak_of`], as [`peak_of_programs`].
#[must_use]
pub fn processor_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        let mut total = Duration::ZERO;
        for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
            let usage = getrusage(who).ok()?;
            for time in [usage.user_time(), usage.system_time()] {
                let (seconds, micros) = (
                    u64::try_from(time.tv_sec()).ok()?,
                    u64::try_from(time.tv_usec()).ok()?,
                );
                total += Duration::from_secs(seconds) + Duration::from_micros(micros);
            }
        }
        Some(total)
    }
    #[cfg(not(unix))]
    None
}

/// The most memory that this process has had, in bytes.
fn high_water() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn failed(test: &str, why: &dyn std::fmt::Display) -> TestkitError {
    TestkitError::Measuring {
        test: test.to_owned(),
        why: why.to_string(),
    }
}
