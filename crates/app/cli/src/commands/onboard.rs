//! `nanobot onboard`: creates or refreshes the configuration and the workspace.

use std::io::{self, BufRead as _};
use std::process::ExitCode;

use clap::Args;
use nanobot_config::Config;
use nanobot_runtime::{FirstRun, OnboardMode, OnboardReport, RuntimeBuilder, plan_onboarding};

use super::{block_on, skills};
use crate::failure::CommandFailure;
use crate::{output, serve};

/// Options of `onboard`.
#[derive(Debug, Args)]
pub(crate) struct OnboardArguments {
    /// Print what would be read, kept, ignored and created, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Keep the values of an existing configuration and add missing keys, without asking
    #[arg(long, conflicts_with = "overwrite")]
    refresh: bool,
    /// Replace an existing configuration with the defaults, without asking; a copy is kept
    #[arg(long)]
    overwrite: bool,
}

/// Prepares a home, or only reports what that would do.
///
/// # Errors
/// Returns an error if the configuration cannot be read or written, or the workspace cannot be
/// created.
pub(crate) fn onboard(
    program: &RuntimeBuilder,
    arguments: &OnboardArguments,
) -> Result<ExitCode, CommandFailure> {
    // A file that `--config` names need not exist yet: this command creates it.
    let runtime = program.clone().may_be_missing().build()?;
    let config = runtime.config();
    if arguments.dry_run {
        output::line(&plan_onboarding(config)?.to_string())?;
        serve::warn_of_skills(&runtime);
        return Ok(ExitCode::SUCCESS);
    }
    let mode = mode(config, arguments)?;
    let is_first_run = config.is_first_run();
    let tell = |visit: &FirstRun| output::note(&visit.to_string());
    let report = block_on(async { Ok(nanobot_runtime::onboard(&runtime, mode, tell).await?) })?;
    output::write(&describe(&report))?;
    if is_first_run && output::is_interactive() {
        skills::ask_at_first_run(&runtime)?;
    }
    serve::warn_of_skills(&runtime);
    Ok(ExitCode::SUCCESS)
}

fn mode(config: &Config, arguments: &OnboardArguments) -> Result<OnboardMode, CommandFailure> {
    if arguments.overwrite {
        return Ok(OnboardMode::Overwrite);
    }
    if arguments.refresh || !config.has_file() || !output::is_interactive() {
        return Ok(OnboardMode::Refresh);
    }
    let file = config.paths().config_file.display();
    output::write(&format!(
        "{file} exists. Replace it by the defaults? A copy is kept. [y = replace, N = keep values and add what is missing] "
    ))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    let replaces = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    Ok(if replaces {
        OnboardMode::Overwrite
    } else {
        OnboardMode::Refresh
    })
}

fn describe(report: &OnboardReport) -> String {
    let mut lines = Vec::new();
    let file = report.config_file.display();
    lines.push(if report.written {
        format!("✓ Wrote {file}")
    } else {
        format!("✓ {file} needed nothing")
    });
    lines.extend(
        report
            .backup
            .as_ref()
            .map(|backup| format!("  The file as it was: {}", backup.display())),
    );
    lines.push(format!("✓ Workspace {}", report.workspace.display()));
    lines.extend(
        report
            .created
            .iter()
            .map(|path| format!("  Created {}", path.display())),
    );
    lines.push("Next:".to_owned());
    lines.push(format!(
        "  1. Put an API key into {file} (providers.<name>.apiKey), or start a local model server."
    ));
    lines.push("  2. Talk: nanobot agent".to_owned());
    lines.push("  3. Connect a chat: enable a channel there, then nanobot gateway".to_owned());
    lines.join("\n") + "\n"
}
