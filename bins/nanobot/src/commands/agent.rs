//! `nanobot agent`: one question, a prompt, or lines of a pipe.

use std::process::ExitCode;

use nanobot_runtime::{LoadOptions, TerminalOptions, load};

use super::block_on;
use crate::arguments::AgentArguments;
use crate::failure::{Failure, USAGE};
use crate::{logs, output, serve, terminal};

/// Talks to the assistant.
///
/// # Errors
/// When it cannot start.
pub(crate) fn agent(options: &LoadOptions, arguments: AgentArguments) -> Result<ExitCode, Failure> {
    if arguments.message.as_deref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Failure::Said {
            what: "the message is empty".to_owned(),
            remedy: Some("Give --message some text, or leave it out to talk at a prompt.".to_owned()),
            code: USAGE,
        });
    }
    let config = load(options)?;
    serve::warn_of_findings(&config);
    if arguments.shows_logs() {
        logs::to_stderr(logs::Detail::Full);
    }
    nanobot_runtime::install_tls();
    let renders_markdown = arguments.renders_markdown();
    let options = TerminalOptions { session: arguments.session, demo: arguments.demo, load: options.clone() };
    block_on(async {
        match arguments.message {
            Some(text) => terminal::ask_once(&config, options, &text, renders_markdown).await,
            None if output::is_interactive() => terminal::converse(&config, options, renders_markdown).await,
            None => terminal::answer_lines(&config, options).await,
        }
    })
}
