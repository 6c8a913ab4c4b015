//! Answers the lines of a pipe one after the other.
//!
//! Each line is a message. All replies of its turn are printed before the next line is sent, except
//! that the line after a question is its answer. A terminal that cannot edit lines gets this, too.

use std::io::{self, BufRead as _};
use std::process::ExitCode;
use std::thread;

use nanobot_runtime::{Runtime, Terminal, TerminalEvent, TerminalOptions, TerminalProgress};
use tokio::sync::mpsc;

use super::printer::{OutputFormat, Printer};
use super::{ended, full_key, is_command, is_farewell, model_notice};
use crate::failure::{CommandFailure, FAILED};
use crate::signals::Signals;

/// Answer to a question after the end of the input.
const REFUSAL: &str = "no";

/// Answers the lines of standard input until it ends.
///
/// # Errors
/// Returns an error if the assistant cannot start, or standard output cannot be written to.
pub(crate) async fn answer_lines(
    runtime: &Runtime,
    options: TerminalOptions,
    format: OutputFormat,
) -> Result<ExitCode, CommandFailure> {
    let mut printer = Printer::of_lines(format, TerminalProgress::of(runtime.config())?);
    let session = full_key(&options.session);
    let terminal = Terminal::start(runtime, options).await?;
    printer.start(&session, &terminal.model().to_string());
    if let Some(first_run) = terminal.first_run() {
        printer.note(&first_run.to_string());
    }
    if let Some(notice) = model_notice(terminal.model()) {
        printer.note(&notice);
    }
    answer_with(terminal, printer).await
}

/// Answers lines with a running assistant. The exit code is 1 if a message failed.
///
/// # Errors
/// Returns an error if standard output cannot be written to.
pub(super) async fn answer(
    terminal: Terminal,
    shows: TerminalProgress,
) -> Result<ExitCode, CommandFailure> {
    answer_with(terminal, Printer::of_lines(OutputFormat::Plain, shows)).await
}

async fn answer_with(terminal: Terminal, mut printer: Printer) -> Result<ExitCode, CommandFailure> {
    let mut signals = Signals::listen()?;
    let mut conversation = Lines {
        terminal,
        input: LineInput::open(),
    };
    let outcome = tokio::select! {
        outcome = conversation.answer_each(&mut printer) => outcome,
        code = signals.next() => {
            printer.end(code)?;
            return Ok(ExitCode::from(code));
        }
    };
    let printed = match &outcome {
        Ok(code) => printer.end(*code),
        Err(_) => printer.abandon(),
    };
    tokio::select! {
        () = conversation.terminal.shut_down() => {}
        code = signals.next() => return Ok(ExitCode::from(code)),
    }
    let code = outcome?;
    printed?;
    Ok(ExitCode::from(code))
}

/// A conversation by lines.
struct Lines {
    terminal: Terminal,
    input: LineInput,
}

impl Lines {
    async fn answer_each(&mut self, printer: &mut Printer) -> Result<u8, CommandFailure> {
        let mut code = 0;
        while let Some(line) = self.input.next().await {
            self.terminal.send(line.as_str()).await?;
            if !self.print_replies(printer, is_command(&line)).await? {
                code = FAILED;
            }
        }
        // Results of subagents are still shown.
        while let Some(event) = self.terminal.next_unfinished().await {
            print(printer, &event)?;
            match event {
                TerminalEvent::Question { .. } => self.terminal.send(REFUSAL).await?,
                TerminalEvent::Reply {
                    ok: false,
                    job: None,
                    ..
                } => code = FAILED,
                _ => {}
            }
        }
        Ok(code)
    }

    /// Prints up to the end of the turn, or up to the answer of a command; `false` if the message
    /// failed. While questions are open, the next lines are their answers; there is none after the
    /// end of the input.
    async fn print_replies(
        &mut self,
        printer: &mut Printer,
        is_command: bool,
    ) -> Result<bool, CommandFailure> {
        let mut questions = 0_usize;
        loop {
            let event = tokio::select! {
                biased;
                event = self.terminal.next() => event.ok_or_else(ended)?,
                line = self.input.next(), if questions > 0 => {
                    questions -= 1;
                    let answer = line.as_deref().unwrap_or(REFUSAL);
                    self.terminal.send(answer).await?;
                    continue;
                }
            };
            print(printer, &event)?;
            match event {
                TerminalEvent::Question { .. } => questions += 1,
                TerminalEvent::TurnEnd { .. } if !is_command => return Ok(true),
                TerminalEvent::Reply { ok, job: None, .. } if is_command => return Ok(ok),
                // The end of its turn is not awaited: a message that could not be recorded is tried
                // again, and has none before that succeeds.
                TerminalEvent::Reply {
                    ok: false,
                    job: None,
                    ..
                } => {
                    printer.end_failed_turn(self.terminal.unfinished());
                    printer.outcome()?;
                    return Ok(false);
                }
                _ => {}
            }
        }
    }
}

fn print(printer: &mut Printer, event: &TerminalEvent) -> Result<(), CommandFailure> {
    printer.show(event);
    Ok(printer.outcome()?)
}

/// The lines of standard input that are messages.
struct LineInput {
    lines: mpsc::Receiver<String>,
    /// Set at the end of the input, and after a line that ends the conversation.
    has_ended: bool,
}

impl LineInput {
    /// Starts to read standard input.
    fn open() -> Self {
        Self {
            lines: lines(),
            has_ended: false,
        }
    }

    /// Returns the next line that is not empty; `None` after the end. Cancel-safe.
    async fn next(&mut self) -> Option<String> {
        while !self.has_ended {
            match self.lines.recv().await {
                Some(line) if line.trim().is_empty() => {}
                Some(line) if !is_farewell(&line) => return Some(line),
                _ => self.has_ended = true,
            }
        }
        None
    }
}

/// Reads the lines of standard input on demand. Invalid UTF-8 is replaced.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut bytes = Vec::new();
        while matches!(input.read_until(b'\n', &mut bytes), Ok(read) if read > 0) {
            let line = String::from_utf8_lossy(&bytes)
                .trim_end_matches(['\n', '\r'])
                .to_owned();
            bytes.clear();
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
