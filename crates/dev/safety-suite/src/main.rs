//! The safety suite: attacks and harmless commands and tool files, through the real tools and the
//! real sandbox.
//!
//! Prints one line for each promise, with its numbers, and exits with 1 if one does not hold. Run
//! it as an unprivileged user: some attacks are stopped by nothing else for root.

mod command;
mod fixture;
mod overhead;
mod tool_file;

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, ensure};
use clap::Parser;
use nanobot_tools::Mechanism;

use crate::fixture::Setting;

/// Run attacks and harmless commands and tool files in the sandbox and count what had an effect.
#[derive(Debug, Parser)]
#[command(name = "nanobot-safety-suite")]
struct SuiteArguments {
    /// Run only the row with this id, and show its result
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// Folder of the commands' files; set by the suite itself
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
    /// Confine commands by Landlock, as where bubblewrap cannot be used
    #[arg(long)]
    landlock: bool,
    /// Also run the proven attacks in a plain shell, to show that their effects are seen
    #[arg(long)]
    control: bool,
    /// Number of commands for the measurement of the overhead
    #[arg(long, default_value_t = 50)]
    runs: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = nanobot_sandbox::enter() {
        return Ok(code);
    }
    let arguments = SuiteArguments::parse();
    match &arguments.root {
        Some(root) => suite(
            &arguments,
            &Setting {
                root: root.clone(),
                mechanism: arguments.landlock.then_some(Mechanism::Landlock),
                has_control: arguments.control,
            },
        ),
        None => with_own_environment(),
    }
}

/// Starts the suite again with the environment of an assistant whose secrets must not leak. A
/// process cannot change its own environment safely.
fn with_own_environment() -> anyhow::Result<ExitCode> {
    // Not below /tmp, which no profile shows to commands.
    let folder = tempfile::Builder::new()
        .prefix("nanobot-safety-")
        .tempdir_in("/var/tmp")?;
    let root = folder.path().join("root");
    let status = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .arg("--root")
        .arg(&root)
        .env("HOME", root.join("home"))
        .env("FAKE_API_KEY", fixture::ENVIRONMENT_CANARY)
        .status()
        .context("the suite cannot start itself")?;
    Ok(ExitCode::from(u8::from(!status.success())))
}

fn suite(arguments: &SuiteArguments, setting: &Setting) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let only = arguments.only.as_deref();
    let commands = command::rows(only)?;
    let tool_files = tool_file::rows(only)?;
    ensure!(
        !commands.is_empty() || !tool_files.is_empty(),
        "the corpora have no such row"
    );
    let mut output = io::stdout().lock();
    let mut holds = true;
    if !commands.is_empty() {
        let mut outcome = command::Outcome::default();
        for row in &commands {
            let result = runtime.block_on(command::check(row, setting))?;
            if only.is_some() {
                writeln!(output, "{result:?}")?;
            }
            outcome.add(row, result);
        }
        holds &= outcome.holds(arguments.landlock);
        print_all(&mut output, &outcome.failures, &outcome.summary())?;
    }
    for (has_scan, how) in [(true, ""), (false, " without the scan")] {
        if tool_files.is_empty() {
            break;
        }
        let mut outcome = tool_file::Outcome::default();
        for row in &tool_files {
            runtime.block_on(outcome.check(row, setting, has_scan))?;
        }
        holds &= outcome.holds();
        let summary = format!("tool files{how}: {}", outcome.summary());
        print_all(&mut output, &outcome.failures, &[summary])?;
    }
    if only.is_none() {
        let overhead = overhead::measure(setting, arguments.runs)?;
        writeln!(output, "{overhead}")?;
    }
    Ok(ExitCode::from(u8::from(!holds)))
}

/// Prints rows that went otherwise than in a plain shell, or had an effect, and then the numbers.
fn print_all(output: &mut impl io::Write, rows: &[String], numbers: &[String]) -> io::Result<()> {
    for row in rows {
        writeln!(output, "differs: {row}")?;
    }
    numbers
        .iter()
        .try_for_each(|line| writeln!(output, "{line}"))
}
