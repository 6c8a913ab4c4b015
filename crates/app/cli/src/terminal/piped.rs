//! Answers the lines of a pipe one after the other.
//!
//! Each line is a message. All replies of its turn are printed before the next line is sent. A
//! terminal that cannot edit lines gets this, too.

use std::io::{self, BufRead as _};
use std::process::ExitCode;
use std::thread;

use nanobot_runtime::{Runtime, Terminal, TerminalEvent, TerminalOptions, TerminalProgress};
use tokio::sync::mpsc;

use super::ended;
use super::render::Style;
use super::view::{View, ViewPiece};
use super::{is_command, is_farewell, model_notice};
use crate::failure::{CommandFailure, FAILED};
use crate::output;
use crate::signals::Signals;

/// Answers the lines of standard input until it ends.
///
/// # Errors
/// Returns an error if the assistant cannot start, or standard output cannot be written to.
pub(crate) async fn answer_lines(
    runtime: &Runtime,
    options: TerminalOptions,
) -> Result<ExitCode, CommandFailure> {
    let shows = TerminalProgress::of(runtime.config())?;
    let terminal = Terminal::start(runtime, options).await?;
    if let Some(first_run) = terminal.first_run() {
        output::note(&first_run.to_string());
    }
    if let Some(notice) = model_notice(terminal.model()) {
        output::note(&notice);
    }
    answer(terminal, shows).await
}

/// Answers lines with a running assistant. The exit code is 1 if a message failed.
///
/// # Errors
/// Returns an error if standard output cannot be written to.
pub(super) async fn answer(
    terminal: Terminal,
    shows: TerminalProgress,
) -> Result<ExitCode, CommandFailure> {
    let mut signals = Signals::listen()?;
    let mut terminal = terminal;
    let mut lines = lines();
    let mut view = View::whole(
        if output::is_terminal() {
            Style::Lines
        } else {
            Style::Verbatim
        },
        shows,
    );
    let outcome = tokio::select! {
        outcome = answer_each(&mut terminal, &mut view, &mut lines) => outcome,
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    tokio::select! {
        () = terminal.shut_down() => outcome,
        code = signals.next() => Ok(ExitCode::from(code)),
    }
}

async fn answer_each(
    terminal: &mut Terminal,
    view: &mut View,
    lines: &mut mpsc::Receiver<String>,
) -> Result<ExitCode, CommandFailure> {
    let mut code = ExitCode::SUCCESS;
    while let Some(line) = lines.recv().await {
        if line.trim().is_empty() {
            continue;
        }
        if is_farewell(&line) {
            return Ok(code);
        }
        terminal.send(&line).await?;
        if !print_replies(terminal, view, is_command(&line)).await? {
            code = ExitCode::from(FAILED);
        }
    }
    // Results of subagents are still shown.
    while let Some(event) = terminal.next_unfinished().await {
        print(view, &event)?;
        if matches!(event, TerminalEvent::Reply { ok: false, .. }) {
            code = ExitCode::from(FAILED);
        }
    }
    Ok(code)
}

/// Prints up to the end of the turn, or up to the answer of a command; `false` if the message
/// failed.
async fn print_replies(
    terminal: &mut Terminal,
    view: &mut View,
    is_command: bool,
) -> Result<bool, CommandFailure> {
    loop {
        let event = terminal.next().await.ok_or_else(ended)?;
        print(view, &event)?;
        match event {
            TerminalEvent::TurnEnd { .. } if !is_command => return Ok(true),
            TerminalEvent::Reply { ok, .. } if is_command || !ok => return Ok(ok),
            _ => {}
        }
    }
}

fn print(view: &mut View, event: &TerminalEvent) -> Result<(), CommandFailure> {
    for piece in view.show(event) {
        match piece {
            ViewPiece::Reply(text) => output::write_verbatim(&text)?,
            ViewPiece::Note(text) => output::note(text.trim_end()),
        }
    }
    Ok(())
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
