//! The conversation at a prompt.
//!
//! Replies are printed as they come; below them are the status of the running turn and the edited
//! message. A message that is sent while a turn runs steers the turn.
//!
//! Decision: when the user leaves, the results of running subagents are waited for and shown, as
//! for a question and for a pipe.

mod actions;
mod attachments;
mod commands;
mod completions;
mod conversations;
mod details;
mod external;
mod session;

use std::io::Stdout;
use std::process::ExitCode;
use std::time::Duration;

use nanobot_runtime::{Runtime, Terminal, TerminalOptions, TerminalProgress};

use self::completions::WordSource;
use self::conversations::Conversations;
use self::session::PromptSession;
use super::edit::{HistoryFile, LineEditor};
use super::model_notice;
use super::render::{Layout, Style, wrapped};
use super::screen::{LiveRegion, RawMode};
use super::view::View;
use crate::failure::CommandFailure;
use crate::output;
use crate::signals::Signals;

/// Maximum time for the end of a conversation.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Talks at a prompt until the user leaves.
///
/// # Errors
/// Returns an error if the assistant cannot start.
pub(crate) async fn converse(
    runtime: &Runtime,
    options: TerminalOptions,
    renders_markdown: bool,
) -> Result<ExitCode, CommandFailure> {
    let shows = TerminalProgress::of(runtime.config())?;
    let conversations = Conversations::new(runtime, &options.session);
    let terminal = Terminal::start_prompt(runtime, options).await?;
    output::write(&banner(&terminal, region().width()))?;
    let mut signals = Signals::listen()?;
    let mode = if output::is_dumb() {
        None
    } else {
        RawMode::enter().ok()
    };
    let Some(mode) = mode else {
        return super::piped::answer(terminal, shows).await;
    };
    let style = if renders_markdown {
        Style::Markdown
    } else {
        Style::Lines
    };
    let history = HistoryFile::new(runtime.config().paths().history.clone());
    let words = WordSource {
        folder: std::env::current_dir().unwrap_or_default(),
        runtime: runtime.clone(),
    };
    let mut session = PromptSession::new(
        terminal,
        conversations,
        View::terminal(style, layout(), shows),
        LineEditor::new(history),
        words,
        region(),
    );
    let interrupts = session.interrupts.clone();
    let ended = tokio::select! {
        biased;
        code = interrupts.next(&mut signals) => Ok(Some(code)),
        outcome = session.run(&mode) => outcome.map(|()| None),
    };
    session.leave();
    mode.restore();
    let code = match ended {
        Ok(None) => Ok(session.end_subagents(&mut signals).await),
        Ok(Some(code)) => Ok(ExitCode::from(code)),
        Err(error) => Err(error),
    };
    tokio::select! {
        () = session.shut_down() => {}
        () = tokio::time::sleep(END_TIMEOUT) => {}
        _ = signals.next() => {}
    }
    code
}

/// Returns the layout of the terminal; the width is set before anything is shown.
fn layout() -> Layout {
    Layout {
        width: None,
        palette: output::Palette::of_output(),
    }
}

fn region() -> LiveRegion<Stdout> {
    LiveRegion::new(std::io::stdout(), output::screen_size().unwrap_or_default())
}

fn banner(terminal: &Terminal, width: usize) -> String {
    let mut lines = Vec::new();
    if let Some(first_run) = terminal.first_run() {
        lines.push(first_run.to_string());
    }
    lines.push(format!(
        "🐈 nanobot {} · {}",
        env!("CARGO_PKG_VERSION"),
        terminal.model()
    ));
    lines.extend(model_notice(terminal.model()));
    lines.extend(
        terminal
            .created()
            .iter()
            .map(|path| format!("Created {}", path.display())),
    );
    lines.push(
        "/help lists commands and keys; Ctrl-C stops a running turn; Ctrl-D leaves.".to_owned(),
    );
    wrapped(&lines.join("\n"), width) + "\n\n"
}
