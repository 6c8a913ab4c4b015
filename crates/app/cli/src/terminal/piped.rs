//! Answers the lines of a pipe one after the other.
//!
//! Each line is a message. All replies of its turn are printed before the next line is sent. A
//! terminal that cannot edit lines gets this, too.

use std::io::{self, BufRead as _};
use std::process::ExitCode;
use std::thread;

use nanobot_runtime::{Runtime, Terminal, TerminalEvent, TerminalOptions, TerminalProgress};
use tokio::sync::mpsc;

use super::printer::{OutputFormat, Printer};
use super::{ended, full_key, is_command, is_farewell, model_notice};
use crate::failure::{CommandFailure, FAILED};
use crate::signals::Signals;

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

async fn answer_with(
    mut terminal: Terminal,
    mut printer: Printer,
) -> Result<ExitCode, CommandFailure> {
    let mut signals = Signals::listen()?;
    let mut lines = lines();
    let outcome = tokio::select! {
        outcome = answer_each(&mut terminal, &mut printer, &mut lines) => outcome,
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
        () = terminal.shut_down() => {}
        code = signals.next() => return Ok(ExitCode::from(code)),
    }
    let code = outcome?;
    printed?;
    Ok(ExitCode::from(code))
}

async fn answer_each(
    terminal: &mut Terminal,
    printer: &mut Printer,
    lines: &mut mpsc::Receiver<String>,
) -> Result<u8, CommandFailure> {
    let mut code = 0;
    while let Some(line) = lines.recv().await {
        if line.trim().is_empty() {
            continue;
        }
        if is_farewell(&line) {
            return Ok(code);
        }
        terminal.send(line.as_str()).await?;
        if !print_replies(terminal, printer, is_command(&line)).await? {
            code = FAILED;
        }
    }
    // Results of subagents are still shown.
    while let Some(event) = terminal.next_unfinished().await {
        print(printer, &event)?;
        if matches!(
            event,
            TerminalEvent::Reply {
                ok: false,
                job: None,
                ..
            }
        ) {
            code = FAILED;
        }
    }
    Ok(code)
}

/// Prints up to the end of the turn, or up to the answer of a command; `false` if the message
/// failed.
async fn print_replies(
    terminal: &mut Terminal,
    printer: &mut Printer,
    is_command: bool,
) -> Result<bool, CommandFailure> {
    loop {
        let event = terminal.next().await.ok_or_else(ended)?;
        print(printer, &event)?;
        match event {
            TerminalEvent::TurnEnd { .. } if !is_command => return Ok(true),
            TerminalEvent::Reply { ok, job: None, .. } if is_command || !ok => return Ok(ok),
            _ => {}
        }
    }
}

fn print(printer: &mut Printer, event: &TerminalEvent) -> Result<(), CommandFailure> {
    printer.show(event);
    Ok(printer.outcome()?)
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
