//! Runs the gateway, for `nanobot gateway` and `nanobot-gateway`.
//!
//! The first signal stops it in order, the second one at once. A restart that the user asked for
//! replaces the process by a new one with the same arguments, so that a service manager sees one
//! process.

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

use nanobot_config::{Config, ConfigSeverity};
use nanobot_runtime::{Gateway, GatewayEnd, Runtime, RuntimeBuilder};
use tokio_util::sync::CancellationToken;

use crate::failure::CommandFailure;
use crate::logs::{self, Detail};
use crate::output;
use crate::signals::Signals;

/// Options of running a gateway.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    /// The program to run.
    pub(crate) program: RuntimeBuilder,
    /// Level of detail of the log.
    pub(crate) detail: Detail,
    /// Set when the log on standard error is JSON.
    pub(crate) json_logs: bool,
}

/// Runs a gateway until it is stopped.
///
/// # Errors
/// Returns the error that kept it from starting, or that ended it.
pub(crate) fn serve(options: &ServeOptions) -> Result<ExitCode, CommandFailure> {
    let runtime = options.program.build()?;
    let config = runtime.config();
    warn_of_findings(config);
    warn_of_skills(&runtime);
    warn_of_sandbox(&runtime);
    if let Some(warning) = nanobot_runtime::tighten(config) {
        output::note(&format!("Warning: {warning}"));
    }
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            CommandFailure::new(
                format!("cannot start: {error}"),
                "Check the limits of this process (ulimit -a).",
            )
        })?;
    // Resolved before a newer program can replace the file; the restart runs the newer one.
    let program = std::env::current_exe();
    let outcome = executor.block_on(run(&runtime, options));
    executor.shutdown_background();
    match outcome? {
        ServeOutcome::Exit(code) => Ok(code),
        ServeOutcome::Restart => restart_program(&program?).map_err(|error| {
            CommandFailure::new(
                format!("cannot begin again: {error}"),
                "Start the gateway by hand.",
            )
        }),
    }
}

/// Outcome of a gateway's run.
enum ServeOutcome {
    Exit(ExitCode),
    Restart,
}

/// Replaces this process; returns only if that failed.
#[cfg(unix)]
fn restart_program(program: &Path) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    Err(Command::new(program)
        .args(std::env::args_os().skip(1))
        .exec())
}

/// Starts another process in place of this one.
#[cfg(not(unix))]
fn restart_program(program: &Path) -> io::Result<ExitCode> {
    Command::new(program)
        .args(std::env::args_os().skip(1))
        .spawn()?;
    Ok(ExitCode::SUCCESS)
}

async fn run(runtime: &Runtime, options: &ServeOptions) -> Result<ServeOutcome, CommandFailure> {
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
        // A signal that ends the process overrides a restart.
        outcome = running => outcome.map_err(CommandFailure::from).and_then(|_| finish(GatewayEnd::Stopped)),
        code = signals.next() => Ok(ServeOutcome::Exit(ExitCode::from(code))),
    }
}

fn finish(ended: GatewayEnd) -> Result<ServeOutcome, CommandFailure> {
    tracing::info!(?ended, "gateway stopped");
    Ok(match ended {
        GatewayEnd::Stopped => ServeOutcome::Exit(ExitCode::SUCCESS),
        GatewayEnd::ToRestart => ServeOutcome::Restart,
    })
}

/// Warns about skills that ask for more than the user agreed to.
pub(crate) fn warn_of_skills(runtime: &Runtime) {
    for line in nanobot_runtime::unagreed_skills(runtime) {
        output::note(&output::sanitize(&format!("Warning: {line}")));
    }
}

/// Warns that commands run without a sandbox, if the operator switched it off.
pub(crate) fn warn_of_sandbox(runtime: &Runtime) {
    if let Some(warning) = nanobot_runtime::sandbox_warning(runtime) {
        output::note(&format!("Warning: {warning}"));
    }
}

/// Warns about findings in the configuration.
pub(crate) fn warn_of_findings(config: &Config) {
    for finding in config
        .findings()
        .iter()
        .filter(|finding| finding.severity() >= ConfigSeverity::Warning)
    {
        output::note(&format!("warning: {finding}"));
    }
}

/// Overrides the port of the health endpoint, if one is given.
pub(crate) fn with_port(program: RuntimeBuilder, port: Option<u16>) -> RuntimeBuilder {
    match port {
        Some(port) => program.with_override("gateway.port", &port.to_string()),
        None => program,
    }
}
