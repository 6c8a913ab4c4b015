//! One message: the reply goes to standard output, everything else to standard error, unless both
//! are the same terminal.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_runtime::{
    FirstRun, ModelChoice, Runtime, TerminalEvent, TerminalOptions, TerminalProgress, ask,
};

use super::input::MessageInput;
use super::printer::{OutputFormat, Printer};
use super::status::TICK;
use super::{full_key, model_notice};
use crate::failure::{CommandFailure, FAILED};
use crate::signals::Signals;

/// Sends one message and prints the reply. Ctrl-C ends the turn; its steps are kept.
///
/// # Errors
/// Returns an error if the message is empty or too large, the assistant cannot start, or standard
/// output cannot be written to.
pub(crate) async fn ask_once(
    runtime: &Runtime,
    options: TerminalOptions,
    input: MessageInput,
    format: OutputFormat,
) -> Result<ExitCode, CommandFailure> {
    let mut signals = Signals::listen()?;
    let shows = TerminalProgress::of(runtime.config())?;
    let mut printer = Printer::of_message(format, shows);
    let message = tokio::select! {
        message = input.read(format == OutputFormat::Quiet) => message?,
        code = signals.next() => {
            printer.end(code)?;
            return Ok(ExitCode::from(code));
        }
    };
    let printer = Arc::new(Mutex::new(printer));
    let session = full_key(&options.session);
    let starting = Arc::clone(&printer);
    let on_start = |model: &ModelChoice, first_run: Option<&FirstRun>| {
        let mut printer = lock(&starting);
        printer.start(&session, &model.to_string());
        if let Some(first_run) = first_run {
            printer.note(&first_run.to_string());
        }
        if let Some(notice) = model_notice(model) {
            printer.note(&notice);
        }
        printer.begin();
    };
    let shown = Arc::clone(&printer);
    let asked = ask(runtime, options, message, on_start, move |event| {
        lock(&shown).show(&event);
    });
    tokio::pin!(asked);
    let mut ticks = tokio::time::interval(TICK);
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut asked => break outcome,
            code = signals.next() => {
                lock(&printer).end(code)?;
                return Ok(ExitCode::from(code));
            }
            _ = ticks.tick() => lock(&printer).tick(),
        }
    };
    let mut printer = lock(&printer);
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => {
            printer.abandon()?;
            return Err(error.into());
        }
    };
    if let Some(text) = answer.text {
        printer.show(&TerminalEvent::Reply {
            text,
            streamed: answer.streamed,
            ok: answer.ok,
            job: None,
        });
    }
    let code = if answer.ok { 0 } else { FAILED };
    printer.end(code)?;
    Ok(ExitCode::from(code))
}

fn lock(printer: &Mutex<Printer>) -> MutexGuard<'_, Printer> {
    printer.lock().unwrap_or_else(PoisonError::into_inner)
}
