//! The command line of the crash suite.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Parser;
use nanobot_crash_suite::{Nanobot, Options, SuiteReport, run};

/// Kill the gateway at random moments and check that nothing is lost or done twice.
#[derive(Debug, Parser)]
#[command(name = "nanobot-crash-suite")]
struct SuiteArguments {
    /// Number of kills
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Seed of the rounds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of homes to run in parallel
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Record finished rounds in this file, and resume from it
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Path of the program; by default the `nanobot` next to this one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Folder for homes; those of failed rounds are kept
    #[arg(long, value_name = "DIR")]
    homes: Option<PathBuf>,
    /// Keep the homes of successful rounds, too
    #[arg(long)]
    keep: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = SuiteArguments::parse();
    // Rounds do blocking file I/O on these threads; the fakes must not wait for it.
    let workers = arguments.jobs.saturating_mul(2).saturating_add(4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?;
    runtime.block_on(suite(arguments))
}

async fn suite(arguments: SuiteArguments) -> anyhow::Result<ExitCode> {
    let binary = arguments.binary.or_else(Nanobot::beside_this_program).context(
        "there is no nanobot next to this program: build it with `cargo build -p nanobot`, or name it with --binary",
    )?;
    ensure!(binary.is_file(), "{} does not exist", binary.display());
    let folder = arguments
        .homes
        .unwrap_or_else(|| std::env::temp_dir().join("nanobot-crash-suite"));
    let options = Options {
        kills: arguments.kills,
        seed: arguments.seed,
        jobs: arguments.jobs,
        resume: arguments.resume,
        folder: folder.clone(),
        keep: arguments.keep,
    };
    let begun = Instant::now();
    let system = Arc::new(Nanobot::new(std::path::absolute(binary)?));
    let report = run(system, &options, |report| progress(report, begun)).await?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "seed {}, {:.1} s\n\n{report}",
        options.seed,
        begun.elapsed().as_secs_f64()
    )?;
    for failure in &report.failures {
        let (round, kill) = (failure.round, failure.kill);
        writeln!(
            out,
            "{}: round {round}, kill {kill}: {}",
            failure.property, failure.what
        )?;
    }
    if report.is_clean() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "\nThe histories are in {}", folder.display())?;
    Ok(ExitCode::FAILURE)
}

fn progress(report: &SuiteReport, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    let (kills, failures) = (report.tally.kills, report.failures.len());
    // Progress output is best effort.
    drop(writeln!(
        io::stderr().lock(),
        "{kills} kills in {seconds:.1} s, {failures} failures"
    ));
}
