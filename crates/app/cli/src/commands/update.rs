//! `nanobot update --check`: compares this program with the newest release of a feed. Downloads and
//! replaces nothing.

use std::process::ExitCode;

use clap::Args;
use nanobot_runtime::{Release, Runtime, RuntimeBuilder, UpdateError, latest_release};
use serde_json::json;

use super::block_on;
use crate::failure::{CommandFailure, chain};
use crate::output;
use crate::signals::Signals;
use crate::version::VERSION;

/// Explanation of `update`.
pub(crate) const UPDATE_ABOUT: &str = "\
Check for a newer release

Reads the feed that `update.feed` names, an https URL, and prints a newer version and its page.
Nothing is downloaded or replaced. Without `update.feed`, nothing is requested.

Exit codes: 0 the feed was read, whether or not there is a newer version; 1 it cannot be read;
2 no feed is configured.";

/// Options of `update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArguments {
    /// Only check; there is no automatic update
    #[arg(long, required = true)]
    check: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Reads the feed and prints the result.
///
/// # Errors
/// Returns an error if no feed is configured or it cannot be used.
pub(crate) fn update(
    program: &RuntimeBuilder,
    arguments: &UpdateArguments,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    nanobot_runtime::install_tls();
    block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            release = latest_release(&runtime, VERSION) => {
                report(&release.map_err(|error| failure(error, &runtime))?, arguments.json)?;
                Ok(ExitCode::SUCCESS)
            }
            code = signals.next() => Ok(ExitCode::from(code)),
        }
    })
}

fn report(release: &Release, is_json: bool) -> Result<(), CommandFailure> {
    if is_json {
        let report = json!({
            "current": VERSION,
            "latest": release.version,
            "newer": release.is_newer,
            "url": release.url,
            "notes": release.notes,
        });
        output::line(&super::json(&report).map_err(std::io::Error::from)?)?;
        return Ok(());
    }
    if !release.is_newer {
        output::line(&format!(
            "This is nanobot {VERSION}; the newest release is {}.",
            release.version
        ))?;
        return Ok(());
    }
    output::line(&format!(
        "nanobot {} is available; this is {VERSION}.",
        release.version
    ))?;
    if let Some(url) = &release.url {
        output::line(url)?;
    }
    for line in release.notes.iter().flat_map(|notes| notes.lines()) {
        output::line(format!("  {line}").trim_end())?;
    }
    Ok(())
}

fn failure(error: UpdateError, runtime: &Runtime) -> CommandFailure {
    match error {
        UpdateError::Runtime(error) => error.into(),
        UpdateError::NoFeed => CommandFailure::usage(
            format!(
                "update.feed is not set in {}, so nothing was requested",
                runtime.config().paths().config_file.display()
            ),
            "`nanobot config set update.feed URL`, with the https URL of a release feed; docs/install.md has an example.",
        ),
        error => CommandFailure::new(
            output::sanitize(&chain(&error)),
            "Check update.feed: `nanobot config explain update.feed` shows it and its source.",
        ),
    }
}
