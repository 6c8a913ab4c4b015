//! One question: the reply goes to standard output, everything else to standard error.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_runtime::{
    FirstRun, ModelChoice, Runtime, TerminalEvent, TerminalOptions, TerminalProgress, ask,
};

use super::model_notice;
use super::render::{Layout, Style};
use super::view::{View, ViewPiece};
use crate::failure::{CommandFailure, FAILED};
use crate::output;
use crate::signals::Signals;

const WAITING: &str = "\u{1b}[2mthinking…\u{1b}[0m";
const ERASE_LINE: &str = "\r\u{1b}[K";

/// Asks one question and prints the reply. Ctrl-C ends the turn; its steps are kept.
///
/// # Errors
/// Returns an error if the assistant cannot start, or standard output cannot be written to.
pub(crate) async fn ask_once(
    runtime: &Runtime,
    options: TerminalOptions,
    text: &str,
    renders_markdown: bool,
) -> Result<ExitCode, CommandFailure> {
    let mut signals = Signals::listen()?;
    let screen = Arc::new(Mutex::new(Screen::new(
        renders_markdown,
        TerminalProgress::of(runtime.config())?,
    )));
    let shown = Arc::clone(&screen);
    let lock = |screen: &Mutex<Screen>, event: &TerminalEvent| {
        screen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .show(event);
    };
    let on_start = |model: &ModelChoice, first_run: Option<&FirstRun>| {
        if let Some(first_run) = first_run {
            output::note(&first_run.to_string());
        }
        if let Some(notice) = model_notice(model) {
            output::note(&notice);
        }
        shown.lock().unwrap_or_else(PoisonError::into_inner).wait();
    };
    let watched = Arc::clone(&screen);
    let asked = ask(runtime, options, text, on_start, move |event| {
        lock(&watched, &event);
    });
    let outcome = tokio::select! {
        outcome = asked => outcome,
        code = signals.next() => {
            screen.lock().unwrap_or_else(PoisonError::into_inner).clear();
            return Ok(ExitCode::from(code));
        }
    };
    let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
    screen.clear();
    let answer = outcome?;
    if let Some(text) = answer.text {
        screen.show(&TerminalEvent::Reply {
            text,
            streamed: answer.streamed,
            ok: answer.ok,
        });
    }
    screen.outcome()?;
    Ok(if answer.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

/// The output of a turn.
struct Screen {
    view: View,
    /// Set while the indicator of a running turn is shown, until there is something to show.
    is_waiting: bool,
    /// The first error of standard output; nothing is printed after it.
    failed: Option<std::io::Error>,
}

impl Screen {
    fn new(renders_markdown: bool, shows: TerminalProgress) -> Self {
        let layout = Layout {
            width: crossterm::terminal::size()
                .ok()
                .map(|(width, _)| usize::from(width))
                .filter(|width| *width > 0),
            palette: output::Palette::of_output(),
        };
        let view = match (
            output::is_terminal(),
            renders_markdown && !output::is_dumb(),
        ) {
            (true, true) => View::terminal(Style::Markdown, layout, shows),
            (true, false) => View::terminal(Style::Pieces, layout, shows),
            (false, _) => View::whole(Style::Verbatim, shows),
        };
        Self {
            view,
            is_waiting: false,
            failed: None,
        }
    }

    fn wait(&mut self) {
        if output::is_coloured() && std::io::stderr().is_terminal() {
            self.is_waiting = true;
            output::note_piece(WAITING);
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            output::note_piece(ERASE_LINE);
        }
    }

    fn show(&mut self, event: &TerminalEvent) {
        for piece in self.view.show(event) {
            self.clear();
            match piece {
                ViewPiece::Reply(text) if self.failed.is_none() => {
                    self.failed = output::write_verbatim(&text).err();
                }
                ViewPiece::Reply(_) => {}
                ViewPiece::Note(text) => output::note(text.trim_end()),
            }
        }
    }

    fn outcome(&mut self) -> std::io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}
