//! The form in which events are printed when nobody types at a prompt.

use std::io::{self, IsTerminal as _};

use nanobot_runtime::{TerminalEvent, TerminalProgress};

use super::json;
use super::render::{Layout, Style};
use super::view::{View, ViewPiece};
use crate::failure::CommandFailure;
use crate::output;

const WAITING: &str = "\u{1b}[2mthinking…\u{1b}[0m";
const ERASE_LINE: &str = "\r\u{1b}[K";

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Replies in Markdown, rendered on a terminal.
    Markdown,
    /// Replies as they are.
    Plain,
    /// A JSON object for each event, one a line.
    Json,
    /// Successful replies alone; only failures on standard error.
    Quiet,
}

/// Prints events. The first error of standard output is kept, and nothing is printed after it.
pub(super) struct Printer {
    format: OutputFormat,
    view: View,
    /// Set while the indicator of a running turn is shown, until there is something to show.
    is_waiting: bool,
    failed: Option<io::Error>,
}

impl Printer {
    /// Returns a printer for one message, which shows its reply while it is written.
    pub(super) fn streaming(format: OutputFormat, shows: TerminalProgress) -> Self {
        let layout = Layout {
            width: crossterm::terminal::size()
                .ok()
                .map(|(width, _)| usize::from(width))
                .filter(|width| *width > 0),
            palette: output::Palette::of_output(),
        };
        let view = match (output::is_terminal(), format) {
            (true, OutputFormat::Markdown) if !output::is_dumb() => {
                View::terminal(Style::Markdown, layout, shows)
            }
            (true, OutputFormat::Markdown | OutputFormat::Plain) => {
                View::terminal(Style::Pieces, layout, shows)
            }
            (true, OutputFormat::Quiet) => View::whole(Style::Lines, shows),
            (_, _) => View::whole(Style::Verbatim, shows),
        };
        Self::new(format, view)
    }

    /// Returns a printer for several messages, which shows replies as a whole.
    pub(super) fn whole(format: OutputFormat, shows: TerminalProgress) -> Self {
        let style = if output::is_terminal() {
            Style::Lines
        } else {
            Style::Verbatim
        };
        Self::new(format, View::whole(style, shows))
    }

    fn new(format: OutputFormat, view: View) -> Self {
        Self {
            format,
            view,
            is_waiting: false,
            failed: None,
        }
    }

    /// Prints the beginning of a conversation: its session and model, as JSON only.
    pub(super) fn start(&mut self, session: &str, model: &str) {
        if self.format == OutputFormat::Json {
            self.print_json(&json::start(session, model));
        }
    }

    /// Prints a notice of the program.
    pub(super) fn note(&mut self, text: &str) {
        match self.format {
            OutputFormat::Json => self.print_json(&json::notice(text)),
            OutputFormat::Quiet => {}
            OutputFormat::Markdown | OutputFormat::Plain => output::note(text),
        }
    }

    /// Shows that a turn runs, if a person is watching.
    pub(super) fn wait(&mut self) {
        let is_for_people = matches!(self.format, OutputFormat::Markdown | OutputFormat::Plain);
        if is_for_people && output::is_coloured() && io::stderr().is_terminal() {
            self.is_waiting = true;
            output::note_piece(WAITING);
        }
    }

    /// Removes the indicator of a running turn.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            output::note_piece(ERASE_LINE);
        }
    }

    /// Prints an event.
    pub(super) fn show(&mut self, event: &TerminalEvent) {
        match (self.format, event) {
            (OutputFormat::Json, _) => {
                self.print_json(&json::event(event));
                return;
            }
            (
                OutputFormat::Quiet,
                TerminalEvent::Reply {
                    text, ok: false, ..
                },
            ) => {
                output::note(text.trim_end());
                return;
            }
            _ => {}
        }
        for piece in self.view.show(event) {
            self.clear();
            match piece {
                ViewPiece::Reply(text) => self.print(&text),
                ViewPiece::Note(_) if self.format == OutputFormat::Quiet => {}
                ViewPiece::Note(text) => output::note(text.trim_end()),
            }
        }
    }

    /// Prints the end of the conversation, as JSON only.
    ///
    /// # Errors
    /// Returns the first error of standard output.
    pub(super) fn end(&mut self, code: u8) -> io::Result<()> {
        self.clear();
        if self.format == OutputFormat::Json {
            self.print_json(&json::end(code));
        }
        self.outcome()
    }

    /// Like [`end`](Self::end), for a conversation that failed before there was a reply.
    ///
    /// # Errors
    /// Returns the first error of standard output.
    pub(super) fn fail(&mut self, failure: &CommandFailure) -> io::Result<()> {
        self.clear();
        if self.format == OutputFormat::Json
            && let Some((what, remedy)) = failure.explanation()
        {
            self.print_json(&json::error(what, remedy));
        }
        self.end(failure.code())
    }

    /// Returns the first error of standard output.
    ///
    /// # Errors
    /// That error, once.
    pub(super) fn outcome(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn print_json(&mut self, line: &serde_json::Value) {
        self.print(&json::line(line));
    }

    fn print(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = output::write_verbatim(text).err();
        }
    }
}
