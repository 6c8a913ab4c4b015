//! The time that the sandbox adds to a command.

use std::{process::Stdio, time::Duration, time::Instant};

use nanobot_tools::{CommandRequest, CommandRunner, DirectRunner};

use crate::fixture::{Fixture, Setting};

/// Measures `true` with and without the sandbox, in turns, and returns a line with the medians.
pub(crate) fn measure(setting: &Setting, runs: usize) -> anyhow::Result<String> {
    let fixture = Fixture::new(setting, true)?;
    let sandboxed = fixture.runner();
    sandboxed.check()?;
    let request = CommandRequest {
        script: "true".to_owned(),
        directory: fixture.path("ws"),
        environment: Vec::new(),
        limit: None,
    };
    let (mut plain, mut confined) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        plain.push(time(&DirectRunner, &request)?);
        confined.push(time(&sandboxed, &request)?);
    }
    let (plain, confined) = (median(plain), median(confined));
    let overhead = confined.saturating_sub(plain);
    Ok(format!(
        "commands: the sandbox adds {overhead:.1?} to a command (median of {runs}; without {plain:.1?}, with {confined:.1?})"
    ))
}

fn time(runner: &dyn CommandRunner, request: &CommandRequest) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut command = runner.command(request)?;
    command.process.stdin(Stdio::null()).output()?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
