//! Running the gateway: what `nanobot gateway` and `nanobot-gateway` both do.
//!
//! The first signal ends it in order, the second one at once.

use std::process::ExitCode;

use nanobot_config::{Config, Severity};
use nanobot_runtime::{Gateway, LoadOptions, load};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::logs::{self, Detail};
use crate::output;
use crate::signals::Signals;

/// How a gateway is run.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    /// Where its configuration is and what overrides it.
    pub(crate) load: LoadOptions,
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
    let config = load(&options.load)?;
    warn_of_findings(&config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        Failure::new(format!("cannot start: {error}"), "Check the limits of this process (ulimit -a).")
    })?;
    let outcome = runtime.block_on(run(&config, options));
    runtime.shutdown_background();
    outcome
}

async fn run(config: &Config, options: &ServeOptions) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    nanobot_runtime::install_tls();
    if let Err(error) = logs::of_gateway(nanobot_runtime::gateway_log(config)?, options.detail, options.json_logs) {
        output::note(&format!("warning: no log file in {}: {error}", config.paths().logs.display()));
        logs::to_stderr(options.detail);
    }
    let gateway = Gateway::start(config).await?;
    if let Some(visit) = gateway.first_visit() {
        output::note(&visit.to_string());
    }
    let summary = gateway.summary();
    output::line(&format!("🐈 nanobot {} gateway\n{}", env!("CARGO_PKG_VERSION"), summary.join("\n")))?;
    tracing::info!(pid = std::process::id(), "gateway started");
    let cancel = CancellationToken::new();
    let mut running = std::pin::pin!(gateway.run(cancel.clone()));
    tokio::select! {
        outcome = &mut running => return finish(outcome),
        _ = signals.next() => {}
    }
    tracing::info!("shutting down; a second signal ends at once");
    cancel.cancel();
    tokio::select! {
        outcome = running => finish(outcome),
        code = signals.next() => Ok(ExitCode::from(code)),
    }
}

fn finish(outcome: Result<(), nanobot_runtime::RuntimeError>) -> Result<ExitCode, Failure> {
    outcome?;
    tracing::info!("gateway stopped");
    Ok(ExitCode::SUCCESS)
}

/// Says what is probably not as its writer thinks.
pub(crate) fn warn_of_findings(config: &Config) {
    for finding in config.findings().iter().filter(|finding| finding.severity() == Severity::Warning) {
        output::note(&format!("warning: {finding}"));
    }
}
