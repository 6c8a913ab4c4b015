//! `nanobot agent`: one message, a prompt, or lines of a pipe.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nanobot_runtime::{RuntimeBuilder, TerminalOptions};

use super::{block_on, skills};
use crate::failure::CommandFailure;
use crate::terminal::{MessageInput, OutputFormat};
use crate::{logs, output, serve, terminal};

/// The conversation of the terminal.
const DEFAULT_SESSION: &str = "cli:direct";

/// Options of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Read the whole standard input as one message, as without a terminal
    #[arg(value_name = "-", value_parser = ["-"])]
    input: Option<String>,
    /// Send this message and what is piped in, print the reply and exit
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Attach a file or a picture to the message; may be repeated
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Answer each line of standard input as a message, in order
    #[arg(long, conflicts_with_all = ["input", "message", "files"])]
    lines: bool,
    /// Print events as JSON, one a line
    #[arg(long)]
    json: bool,
    /// Print the reply alone; on standard error, only failures
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Conversation to continue
    #[arg(short, long, value_name = "KEY", default_value = DEFAULT_SESSION)]
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

    fn format(&self) -> OutputFormat {
        match (self.json, self.quiet) {
            (true, _) => OutputFormat::Json,
            (false, true) => OutputFormat::Quiet,
            (false, false) if self.renders_markdown() => OutputFormat::Markdown,
            (false, false) => OutputFormat::Plain,
        }
    }

    /// Decides where messages come from.
    fn mode(&self) -> Result<InputMode, CommandFailure> {
        let is_typed = std::io::stdin().is_terminal();
        if self.lines {
            return Ok(InputMode::Lines);
        }
        let message = self.message.as_deref();
        if message.is_some_and(|text| text.trim().is_empty()) && self.files.is_empty() {
            return Err(CommandFailure::usage(
                "the message is empty",
                "Give --message some text, or leave it out to talk at a prompt.",
            ));
        }
        if message.is_some() || self.input.is_some() || !is_typed {
            return Ok(InputMode::Message {
                reads_input: self.input.is_some() || !is_typed,
            });
        }
        if !self.files.is_empty() {
            return Err(CommandFailure::usage(
                "a file needs a message",
                "Say with --message TEXT what is to be done with it.",
            ));
        }
        if !output::is_terminal() {
            return Ok(InputMode::Lines);
        }
        if self.json || self.quiet {
            return Err(CommandFailure::usage(
                "--json and --quiet do not work at a prompt",
                "Give a message with --message TEXT, or pipe it in.",
            ));
        }
        Ok(InputMode::Prompt)
    }
}

/// Opens the prompt, as `agent` without options does on a terminal.
///
/// # Errors
/// Returns an error if the assistant cannot start.
pub(crate) fn open_prompt(program: &RuntimeBuilder) -> Result<ExitCode, CommandFailure> {
    let arguments = AgentArguments {
        input: None,
        message: None,
        files: Vec::new(),
        lines: false,
        json: false,
        quiet: false,
        session: DEFAULT_SESSION.to_owned(),
        markdown: false,
        no_markdown: false,
        logs: false,
        no_logs: false,
        demo: false,
    };
    agent(program, arguments)
}

/// Source of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputMode {
    /// A person at a prompt.
    Prompt,
    /// Lines of standard input, each a message; also of a terminal whose output is redirected.
    Lines,
    /// One message.
    Message {
        /// `true` if standard input is read to its end, as the message or as a part of it.
        reads_input: bool,
    },
}

/// Talks to the assistant. With `--json`, a failure is also printed as JSON.
///
/// # Errors
/// Returns an error if the assistant cannot start.
pub(crate) fn agent(
    program: &RuntimeBuilder,
    arguments: AgentArguments,
) -> Result<ExitCode, CommandFailure> {
    let format = arguments.format();
    let outcome = talk(program, arguments, format);
    if format == OutputFormat::Json
        && let Err(failure) = &outcome
    {
        terminal::print_failure(failure)?;
    }
    outcome
}

fn talk(
    program: &RuntimeBuilder,
    arguments: AgentArguments,
    format: OutputFormat,
) -> Result<ExitCode, CommandFailure> {
    let mode = arguments.mode()?;
    let runtime = program.build()?;
    let config = runtime.config();
    if format != OutputFormat::Quiet {
        serve::warn_of_findings(config);
    }
    if let Some(warning) = nanobot_runtime::tighten(config)
        && format != OutputFormat::Quiet
    {
        output::note(&format!("Warning: {warning}"));
    }
    if mode == InputMode::Prompt && config.is_first_run() {
        skills::ask_at_first_run(&runtime)?;
    }
    if format != OutputFormat::Quiet {
        serve::warn_of_skills(&runtime);
        serve::warn_of_sandbox(&runtime);
    }
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
        match mode {
            InputMode::Prompt => terminal::converse(&runtime, options, renders_markdown).await,
            InputMode::Lines => terminal::answer_lines(&runtime, options, format).await,
            InputMode::Message { reads_input } => {
                let input = MessageInput {
                    text: arguments.message,
                    files: arguments.files,
                    reads_input,
                };
                terminal::ask_once(&runtime, options, input, format).await
            }
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
    fn output_format_follows_its_flags() {
        for (arguments, expected) in [
            (&[][..], OutputFormat::Markdown),
            (&["--no-markdown"], OutputFormat::Plain),
            (&["--json"], OutputFormat::Json),
            (&["-q", "--no-markdown"], OutputFormat::Quiet),
        ] {
            assert_eq!(agent(arguments).format(), expected, "{arguments:?}");
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
