//! The conversation at a prompt.
//!
//! Replies are printed above the edited line; what is typed while a turn runs steers the turn.
//!
//! Decision: when the user leaves, the results of running subagents are waited for and shown, as
//! for a question and for a pipe.

use std::process::ExitCode;
use std::time::Duration;

use nanobot_runtime::{Runtime, Terminal, TerminalEvent, TerminalOptions, TerminalProgress};

use super::editor::{Input, LineEditor, Printer, TurnState};
use super::mode::SavedMode;
use super::stream::Style;
use super::view::{View, ViewPiece};
use super::{ended, is_command, model_notice};
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
    let terminal = Terminal::start(runtime, options.clone()).await?;
    output::write(&banner(&terminal))?;
    let mut signals = Signals::listen()?;
    let mode = SavedMode::save();
    let work = TurnState::default();
    let Some(editor) = LineEditor::open(
        runtime.config().paths().history.clone(),
        mode.clone(),
        work.clone(),
    )
    .await
    else {
        return super::piped::answer(terminal, shows).await;
    };
    let is_coloured = output::is_coloured();
    let style = if renders_markdown && is_coloured {
        Style::Markdown
    } else {
        Style::Lines
    };
    let mut conversation = PromptSession {
        terminal,
        view: View::terminal(style, is_coloured, shows),
        printer: editor.printer,
        work,
        commands: 0,
    };
    let mut input = editor.input;
    let ended = tokio::select! {
        outcome = conversation.run(&mut input) => outcome.map(|()| None),
        code = signals.next() => Ok(Some(code)),
    };
    mode.restore();
    let code = match ended {
        Ok(None) => Ok(conversation.end_subagents(&mut signals).await),
        Ok(Some(code)) => Ok(ExitCode::from(code)),
        Err(error) => Err(error),
    };
    tokio::select! {
        () = conversation.terminal.shut_down() => {}
        () = tokio::time::sleep(END_TIMEOUT) => {}
        _ = signals.next() => {}
    }
    code
}

fn banner(terminal: &Terminal) -> String {
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
    lines.push("/help lists commands; Ctrl-C stops a running turn; Ctrl-D leaves.".to_owned());
    lines.join("\n") + "\n\n"
}

struct PromptSession {
    terminal: Terminal,
    view: View,
    printer: Printer,
    work: TurnState,
    /// Number of commands without an answer so far; they end no turn.
    commands: usize,
}

impl PromptSession {
    async fn run(
        &mut self,
        input: &mut tokio::sync::mpsc::Receiver<Input>,
    ) -> Result<(), CommandFailure> {
        loop {
            tokio::select! {
                event = self.terminal.next() => match event {
                    Some(event) => self.show(&event),
                    None => return Err(ended()),
                },
                typed = input.recv() => match typed {
                    Some(Input::Line(line)) => self.submit(&line).await,
                    Some(Input::Stop) => self.submit("/stop").await,
                    Some(Input::Leave) | None => return Ok(()),
                },
            }
        }
    }

    /// Waits for running subagents and shows their results. A signal stops them.
    async fn end_subagents(&mut self, signals: &mut Signals) -> ExitCode {
        let subagents = match self.terminal.unfinished() {
            0 => return ExitCode::SUCCESS,
            1 => "1 subagent still works".to_owned(),
            several => format!("{several} subagents still work"),
        };
        self.print(format!(
            "{subagents}. Waiting for what comes of it; Ctrl-C stops it and leaves.\n\n"
        ));
        let code = tokio::select! {
            () = self.show_unfinished() => return ExitCode::SUCCESS,
            code = signals.next() => code,
        };
        // Through a command, so that the conversation has a record of it when it continues.
        if tokio::time::timeout(END_TIMEOUT, self.stop())
            .await
            .is_err()
        {
            tracing::warn!("subagents did not stop in time");
        }
        ExitCode::from(code)
    }

    async fn show_unfinished(&mut self) {
        while let Some(event) = self.terminal.next_unfinished().await {
            self.show(&event);
        }
    }

    /// Stops everything in this conversation, and shows the answer.
    async fn stop(&mut self) {
        self.submit("/stop").await;
        while self.commands > 0
            && let Some(event) = self.terminal.next().await
        {
            self.show(&event);
        }
    }

    async fn submit(&mut self, text: &str) {
        if is_command(text) {
            self.commands += 1;
        } else {
            // An earlier turn may have ended since the line was typed.
            self.work.begin();
        }
        if let Err(error) = self.terminal.send(text).await {
            self.print(format!("{}\n", CommandFailure::from(error)));
        }
    }

    fn show(&mut self, event: &TerminalEvent) {
        match event {
            TerminalEvent::TurnEnd { .. } => self.work.end(),
            // The reply of a command, of an earlier turn, or from the middle of this one.
            TerminalEvent::Reply { .. } => self.commands = self.commands.saturating_sub(1),
            _ => {}
        }
        let text: String = self
            .view
            .show(event)
            .into_iter()
            .map(|piece| match piece {
                ViewPiece::Reply(text) | ViewPiece::Note(text) => text,
            })
            .collect();
        let ends_reply = matches!(event, TerminalEvent::Reply { .. });
        self.print(if ends_reply { text + "\n" } else { text });
    }

    fn print(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        if let Err(error) = self.printer.print(text) {
            tracing::debug!(%error, "the terminal takes no text");
        }
    }
}
