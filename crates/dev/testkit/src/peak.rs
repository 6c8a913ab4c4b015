//! Measures the peak memory of a piece of work.
//!
//! The kernel does the counting, in a separate process, because the tests of a program share one
//! heap and an allocator cannot be replaced without unsafe code. Only Linux supports this;
//! elsewhere the work runs and its peak is unknown.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::TestkitError;

/// Environment variable that marks the measured process; its value is the name of the test.
const ROLE: &str = "NANOBOT_MEASURED_WORK";

/// Environment variable with the path of the file to which that process writes its measurement.
const REPORT: &str = "NANOBOT_MEASURED_REPORT";

/// Timeout after which a hanging run is killed. It is not a measure of speed.
const HANG_GUARD: Duration = Duration::from_mins(15);

/// Maximum memory that handling untrusted input may take beyond an idle process, in bytes.
pub const PEAK_LIMIT: u64 = 64 << 20;

/// Runs `work` in another process of this test program and returns the growth of its peak memory in
/// bytes; `None` if it cannot be measured.
///
/// Must be called once, by the test whose full name is `test`.
///
/// # Errors
/// Returns an error if the process cannot be started, fails, or is killed because it hangs.
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

/// Maximum processor time for reading one hostile input: two seconds in a release build. A debug
/// build is about ten times as slow, and up to three times slower on a slow machine.
pub const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 2 });

/// Runs `run` on each of the inputs, in a process whose memory and processor time are measured.
///
/// Must be called once, by the test whose full name is `test`.
///
/// # Errors
/// Returns the errors of [`peak_of`], and an error if [`PEAK_LIMIT`] or [`TIME_LIMIT`] is exceeded.
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

/// Returns the largest peak memory among the child processes that this process has waited for, in
/// bytes; `None` if the kernel does not count it.
///
/// Meaningful only inside the work of [`peak_of`]: elsewhere other tests start processes as well.
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

/// Returns the processor time of this process and of the child processes that it has waited for;
/// `None` if the kernel does not count it. Other load on the machine hardly changes it, so tests
/// can rely on it.
///
/// Like [`peak_of_programs`], meaningful only inside the work of [`peak_of`].
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

/// Returns the peak memory of this process, in bytes.
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
