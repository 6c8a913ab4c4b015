//! `nanobot agent`: one question, a prompt, or lines of a pipe.

use std::process::ExitCode;

use clap::Args;
use nanobot_runtime::{RuntimeBuilder, TerminalOptions};

use super::{block_on, skills};
use crate::failure::{CommandFailure, USAGE};
use crate::{logs, output, serve, terminal};

/// Options of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Send this message, print the reply and exit
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Conversation to continue
    #[arg(short, long, value_name = "KEY", default_value = "cli:direct")]
    session: String,
    /// Render Markdown on a terminal (the default)
    #[arg(long, overrides_with = "no_markdown")]
    markdown: bool,
    /// Print replies as plain text
    #[arg(long, overrides_with = "markdown")]
    no_markdown: bool,
    /// Show the log on standard error
    #[arg(long, overrides_with = "no_logs")]
    logs: bool,
    /// Do not log (the default)
    #[arg(long, overrides_with = "logs")]
    no_logs: bool,
    /// Use the built-in demo model, whatever is configured
    #[arg(long)]
    demo: bool,
}

impl AgentArguments {
    /// `true` if Markdown is to be rendered on a terminal.
    fn renders_markdown(&self) -> bool {
        self.markdown || !self.no_markdown
    }

    /// `true` if the log is to be shown.
    fn shows_logs(&self) -> bool {
        self.logs && !self.no_logs
    }
}

/// Talks to the assistant.
///
/// # Errors
/// Returns an error if the assistant cannot start.
pub(crate) fn agent(
    program: &RuntimeBuilder,
    arguments: AgentArguments,
) -> Result<ExitCode, CommandFailure> {
    if arguments
        .message
        .as_deref()
        .is_some_and(|text| text.trim().is_empty())
    {
        return Err(CommandFailure::Said {
            what: "the message is empty".to_owned(),
            remedy: Some(
                "Give --message some text, or leave it out to talk at a prompt.".to_owned(),
            ),
            code: USAGE,
        });
    }
    let runtime = program.build()?;
    let config = runtime.config();
    serve::warn_of_findings(config);
    if let Some(warning) = nanobot_runtime::tighten(config) {
        output::note(&format!("Warning: {warning}"));
    }
    let is_prompt = arguments.message.is_none() && output::is_interactive();
    if is_prompt && config.is_first_run() {
        skills::ask_at_first_run(&runtime)?;
    }
    serve::warn_of_skills(&runtime);
    if arguments.shows_logs() {
        logs::to_stderr(&nanobot_runtime::secrets(config), logs::Detail::Full);
    }
    nanobot_runtime::install_tls();
    let renders_markdown = arguments.renders_markdown();
    let options = TerminalOptions {
        session: arguments.session,
        demo: arguments.demo,
    };
    block_on(async {
        match arguments.message {
            Some(text) => terminal::ask_once(&runtime, options, &text, renders_markdown).await,
            None if is_prompt => terminal::converse(&runtime, options, renders_markdown).await,
            None => terminal::answer_lines(&runtime, options).await,
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Cli, Command};

    fn agent(arguments: &[&str]) -> AgentArguments {
        let arguments = ["nanobot", "agent"].iter().chain(arguments);
        match Cli::try_parse_from(arguments).unwrap().command {
            Some(Command::Agent(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn last_of_two_opposite_flags_wins() {
        for (arguments, markdown, logs) in [
            (&[][..], true, false),
            (&["--no-markdown", "--logs"], false, true),
            (&["--no-markdown", "--markdown"], true, false),
            (&["--markdown", "--no-markdown"], false, false),
            (&["--logs", "--no-logs"], true, false),
            (&["--no-logs", "--logs"], true, true),
        ] {
            let parsed = agent(arguments);
            assert_eq!(
                (parsed.renders_markdown(), parsed.shows_logs()),
                (markdown, logs),
                "{arguments:?}"
            );
        }
    }
}
