//! Running the gateway: what `nanobot gateway` and `nanobot-gateway` both do.
//!
//! The first signal ends it in order, the second one at once. A restart that a person asked for replaces
//! the program by itself with the same arguments, so that a service manager sees one process.

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

use nanobot_config::{Config, Severity};
use nanobot_runtime::{Ended, Gateway, Runtime, RuntimeBuilder};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::logs::{self, Detail};
use crate::output;
use crate::signals::Signals;

/// How a gateway is run.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    /// The program that is run.
    pub(crate) program: RuntimeBuilder,
    /// How much is logged.
    pub(crate) detail: Detail,
    /// Whether the log on standard error is JSON.
    pub(crate) json_logs: bool,
}

/// Runs a gateway until it is told to end.
///
/// # Errors
/// What keeps it from starting, and what ended it.
pub(crate) fn serve(options: &ServeOptions) -> Result<ExitCode, Failure> {
    let runtime = options.program.build()?;
    let config = runtime.config();
    warn_of_findings(config);
    warn_of_skills(&runtime);
    if let Some(said) = nanobot_runtime::tighten(config) {
        output::note(&format!("Warning: {said}"));
    }
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                format!("cannot start: {error}"),
                "Check the limits of this process (ulimit -a).",
            )
        })?;
    // Asked before it can be replaced by a newer one, which then is what begins.
    let program = std::env::current_exe();
    let outcome = executor.block_on(run(&runtime, options));
    executor.shutdown_background();
    match outcome? {
        Outcome::Exit(code) => Ok(code),
        Outcome::Restart => begin_again(&program?).map_err(|error| {
            Failure::new(
                format!("cannot begin again: {error}"),
                "Start the gateway by hand.",
            )
        }),
    }
}

/// What follows the end of a gateway.
enum Outcome {
    Exit(ExitCode),
    Restart,
}

/// Replaces this process; returns only where that failed.
#[cfg(unix)]
fn begin_again(program: &Path) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    Err(Command::new(program)
        .args(std::env::args_os().skip(1))
        .exec())
}

/// Starts another process in place of this one.
#[cfg(not(unix))]
fn begin_again(program: &Path) -> io::Result<ExitCode> {
    Command::new(program)
        .args(std::env::args_os().skip(1))
        .spawn()?;
    Ok(ExitCode::SUCCESS)
}

async fn run(runtime: &Runtime, options: &ServeOptions) -> Result<Outcome, Failure> {
    let config = runtime.config();
    let mut signals = Signals::listen()?;
    nanobot_runtime::install_tls();
    let secrets = nanobot_runtime::secrets(config);
    let file = nanobot_runtime::gateway_log(config)?;
    if let Err(error) = logs::of_gateway(file, &secrets, options.detail, options.json_logs) {
        output::note(&format!(
            "warning: no log file in {}: {error}",
            config.paths().logs.display()
        ));
        logs::to_stderr(&secrets, options.detail);
    }
    let gateway = Gateway::start(runtime, secrets).await?;
    if let Some(found) = gateway.first_run() {
        output::note(&found.to_string());
    }
    let summary = gateway.summary();
    output::line(&format!(
        "🐈 nanobot {} gateway\n{}",
        env!("CARGO_PKG_VERSION"),
        summary.join("\n")
    ))?;
    tracing::info!(pid = std::process::id(), "gateway started");
    let cancel = CancellationToken::new();
    let mut running = std::pin::pin!(gateway.run(cancel.clone()));
    tokio::select! {
        outcome = &mut running => return finish(outcome?),
        _ = signals.next() => {}
    }
    tracing::info!("shutting down; a second signal ends at once");
    cancel.cancel();
    tokio::select! {
        // Who ends the process by a signal does not want it to begin again.
        outcome = running => outcome.map_err(Failure::from).and_then(|_| finish(Ended::Stopped)),
        code = signals.next() => Ok(Outcome::Exit(ExitCode::from(code))),
    }
}

fn finish(ended: Ended) -> Result<Outcome, Failure> {
    tracing::info!(?ended, "gateway stopped");
    Ok(match ended {
        Ended::Stopped => Outcome::Exit(ExitCode::SUCCESS),
        Ended::ToRestart => Outcome::Restart,
    })
}

/// Names skills that ask for more than was agreed to.
pub(crate) fn warn_of_skills(runtime: &Runtime) {
    for line in nanobot_runtime::unagreed_skills(runtime) {
        output::note(&output::harmless(&format!("Warning: {line}")));
    }
}

/// Says what is probably not as its writer thinks.
pub(crate) fn warn_of_findings(config: &Config) {
    for finding in config
        .findings()
        .iter()
        .filter(|finding| finding.severity() >= Severity::Warning)
    {
        output::note(&format!("warning: {finding}"));
    }
}

/// A program whose health endpoint has the port that was given.
pub(crate) fn with_port(program: RuntimeBuilder, port: Option<u16>) -> RuntimeBuilder {
    match port {
        Some(port) => program.with_override("gateway.port", &port.to_string()),
        None => program,
    }
}
