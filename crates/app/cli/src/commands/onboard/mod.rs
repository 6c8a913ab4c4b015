//! `nanobot onboard`: creates or refreshes the configuration and the workspace.
//!
//! On a terminal it is a conversation; otherwise, and with one of its options, it asks nothing.

mod conversation;
mod dialogue;
mod terminal;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use nanobot_config::ConfigError;
use nanobot_runtime::{
    FirstRun, OnboardMode, OnboardReport, Runtime, RuntimeBuilder, RuntimeError, SetupChoices,
    configured_provider, install_tls, plan_onboarding,
};

use self::conversation::{SetupAnswers, converse};
use self::dialogue::{Interruption, yes};
use self::terminal::{HomeHost, TerminalDialogue};
use super::agent::open_prompt;
use super::{block_on, gateway, report_schema, skills};
use crate::failure::{CommandFailure, FAILED};
use crate::signals::Signals;
use crate::{output, serve};

/// Options of `onboard`.
#[derive(Debug, Args)]
pub(crate) struct OnboardArguments {
    /// Print what would be read, kept, ignored and created, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Ask nothing: create what is missing and keep what is there, as without a terminal
    #[arg(long)]
    non_interactive: bool,
    /// Ask about the configuration only, and end then: no service, no conversation; for containers,
    /// and where another command follows
    #[arg(long)]
    setup_only: bool,
    /// Keep the values of an existing configuration, and add missing keys of its channels, without asking
    #[arg(long, conflicts_with = "overwrite")]
    refresh: bool,
    /// Replace an existing configuration, even an unreadable one, by a new one without asking; a copy is kept
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
    let runtime = load(program, arguments.overwrite)?;
    let config = runtime.config();
    let mode = match arguments.overwrite {
        true => OnboardMode::Overwrite,
        false => OnboardMode::Refresh,
    };
    if arguments.dry_run {
        output::line(&plan_onboarding(&runtime, mode)?.to_string())?;
        serve::warn_of_skills(&runtime);
        return Ok(ExitCode::SUCCESS);
    }
    install_tls();
    let asks = !(arguments.non_interactive || arguments.refresh || arguments.overwrite)
        && output::is_interactive();
    let (choices, service) = if asks {
        match hold_conversation(&runtime, arguments.setup_only)? {
            Ended::Confirmed(choices, service) => (choices, service),
            Ended::Unchanged(code) => {
                output::line("\nNothing was written.")?;
                return Ok(code);
            }
        }
    } else {
        (Box::default(), false)
    };
    let is_first_run = config.is_first_run();
    let tell = |visit: &FirstRun| output::note(&visit.to_string());
    let report =
        block_on(async { Ok(nanobot_runtime::onboard(&runtime, mode, &choices, tell).await?) })?;
    let has_provider = choices.provider.is_some() || configured_provider(&runtime).is_some();
    output::write(&describe(&report))?;
    report_schema(report.schema)?;
    output::write(&next_steps(&report.config_file, has_provider))?;
    if let Some(key) = choices
        .channel
        .as_ref()
        .and_then(|login| login.pending_key())
    {
        output::note(&format!(
            "The channel also needs `{}`: `nanobot channels login` learns it from you.",
            key.key()
        ));
    }
    if is_first_run && output::is_interactive() && !arguments.non_interactive {
        skills::ask_at_first_run(&runtime)?;
    }
    serve::warn_of_skills(&runtime);
    let code = match service {
        true => gateway::install_service(program)?,
        false => ExitCode::SUCCESS,
    };
    if asks && has_provider && !arguments.setup_only {
        return offer_conversation(program, code);
    }
    Ok(code)
}

/// Asks if the prompt is to be opened, and opens it. Returns `code` if it is not.
fn offer_conversation(
    program: &RuntimeBuilder,
    code: ExitCode,
) -> Result<ExitCode, CommandFailure> {
    let answer = block_on(async {
        let mut signals = Signals::listen()?;
        let mut talk = TerminalDialogue;
        tokio::select! {
            answer = yes(&mut talk, "\nTalk now? [Y/n] ") => Ok(Ok(answer)),
            code = signals.next() => Ok(Err(ExitCode::from(code))),
        }
    })?;
    match answer {
        Ok(Ok(answer)) if answer.unwrap_or(true) => open_prompt(program),
        Ok(Err(Interruption::Failed(failure))) => Err(failure),
        Ok(Ok(_) | Err(Interruption::Ended)) => Ok(code),
        Err(code) => Ok(code),
    }
}

/// Loads the configuration. With `replaces`, a file that cannot be parsed counts as empty.
fn load(program: &RuntimeBuilder, replaces: bool) -> Result<Runtime, CommandFailure> {
    // A file that `--config` names need not exist yet: this command creates it.
    let program = program.clone().may_be_missing();
    match program.build() {
        Err(RuntimeError::Config(
            ConfigError::Syntax { .. }
            | ConfigError::NotUtf8 { .. }
            | ConfigError::NotAnObject { .. }
            | ConfigError::Conflict { .. },
        )) if replaces => Ok(program.replaces_file().build()?),
        built => Ok(built?),
    }
}

/// End of a conversation.
enum Ended {
    /// The choices to write, and `true` for a service.
    Confirmed(Box<SetupChoices>, bool),
    /// Nothing is to be written.
    Unchanged(ExitCode),
}

fn hold_conversation(runtime: &Runtime, setup_only: bool) -> Result<Ended, CommandFailure> {
    block_on(async {
        let mut signals = Signals::listen()?;
        let mut host = HomeHost {
            runtime,
            login: None,
            setup_only,
        };
        let mut talk = TerminalDialogue;
        let outcome = tokio::select! {
            outcome = converse(&mut talk, &mut host) => outcome,
            code = signals.next() => return Ok(Ended::Unchanged(ExitCode::from(code))),
        };
        match outcome {
            Ok(Some(answers)) => Ok(confirmed(answers, host)),
            Ok(None) => Ok(Ended::Unchanged(ExitCode::SUCCESS)),
            Err(Interruption::Ended) => Ok(Ended::Unchanged(ExitCode::from(FAILED))),
            Err(Interruption::Failed(failure)) => Err(failure),
        }
    })
}

fn confirmed(answers: SetupAnswers, host: HomeHost<'_>) -> Ended {
    let SetupAnswers {
        provider,
        model,
        user,
        zone,
        channel,
        service,
    } = answers;
    let choices = SetupChoices {
        provider,
        model,
        user,
        zone,
        channel: host.login.filter(|_| channel.is_some()),
    };
    Ended::Confirmed(Box::new(choices), service)
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
    lines.join("\n") + "\n"
}

fn next_steps(file: &Path, has_provider: bool) -> String {
    let mut lines = vec!["Next:".to_owned()];
    if !has_provider {
        lines.push(format!(
            "  - Choose a model: `nanobot onboard` on a terminal asks; or put an API key into\n    {} (providers.<name>.apiKey), or start a local model server.",
            file.display()
        ));
    }
    lines.push("  - Talk: nanobot agent".to_owned());
    lines.push("  - Connect a chat: nanobot channels login NAME, then nanobot gateway".to_owned());
    lines.join("\n") + "\n"
}
