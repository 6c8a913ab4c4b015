//! The form in which events are printed when nobody types at a prompt.

use std::io::{self, IsTerminal as _};

use nanobot_runtime::{TerminalEvent, TerminalProgress};

use super::json;
use super::live::LiveScreen;
use super::render::{Layout, Style};
use super::view::{View, ViewPiece};
use crate::output::{self, Palette};

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
    screen: LiveScreen,
    failed: Option<io::Error>,
}

impl Printer {
    /// Returns a printer for one message. On a terminal it shows the state of the turn.
    pub(super) fn of_message(format: OutputFormat, shows: TerminalProgress) -> Self {
        let screen = match format {
            OutputFormat::Markdown | OutputFormat::Plain => LiveScreen::for_people(),
            OutputFormat::Json | OutputFormat::Quiet => LiveScreen::Nothing,
        };
        let layout = Layout {
            width: output::screen_size().map(|(width, _)| usize::from(width)),
            palette: Palette::of_output(),
        };
        let view = match (&screen, format) {
            (LiveScreen::Reply(_), OutputFormat::Markdown) => {
                View::terminal(Style::Markdown, layout, shows)
            }
            (LiveScreen::Reply(_), _) => View::terminal(Style::Lines, layout, shows),
            (LiveScreen::Status(_) | LiveScreen::Nothing, _) => plain_view(format, shows),
        };
        Self::new(format, view, screen)
    }

    /// Returns a printer for several messages.
    pub(super) fn of_lines(format: OutputFormat, shows: TerminalProgress) -> Self {
        Self::new(format, plain_view(format, shows), LiveScreen::Nothing)
    }

    fn new(format: OutputFormat, view: View, screen: LiveScreen) -> Self {
        Self {
            format,
            view,
            screen,
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
    pub(super) fn begin(&mut self) {
        let begun = self.screen.begin(&self.view);
        self.keep(begun);
    }

    /// Redraws the state of the turn, [`TICK`](super::status::TICK) after the last time.
    pub(super) fn tick(&mut self) {
        let drawn = self.screen.tick(&mut self.view);
        self.keep(drawn);
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
            (OutputFormat::Quiet, TerminalEvent::Question { text, .. }) => {
                output::note(text.trim_end());
                return;
            }
            _ => {}
        }
        self.screen.record(event);
        let pieces = self.view.show(event);
        self.put(pieces);
        if let LiveScreen::Reply(reply) = &mut self.screen {
            let drawn = match event {
                TerminalEvent::Delta(_) => reply.draw_soon(&self.view),
                _ => reply.draw(&self.view),
            };
            self.keep(drawn);
        }
    }

    /// Prints the end of the turn of a message that failed, as JSON only.
    pub(super) fn end_failed_turn(&mut self, unfinished: u32) {
        if self.format == OutputFormat::Json {
            self.print_json(&json::turn_end(unfinished));
        }
    }

    fn put(&mut self, pieces: Vec<ViewPiece>) {
        for piece in pieces {
            match (piece, &mut self.screen) {
                (ViewPiece::Note(_), _) if self.format == OutputFormat::Quiet => {}
                (ViewPiece::Reply(text), LiveScreen::Reply(reply)) => reply.push(&text),
                (ViewPiece::Note(text), LiveScreen::Reply(reply)) if io::stderr().is_terminal() => {
                    reply.push(&text);
                }
                (ViewPiece::Note(text), screen) => {
                    screen.make_room();
                    output::note(text.trim_end());
                }
                (ViewPiece::Reply(text), screen) => {
                    screen.make_room();
                    self.print(&text);
                }
            }
        }
    }

    /// Prints what is left of an interrupted reply, and the end of the conversation as JSON.
    ///
    /// # Errors
    /// Returns the first error of standard output.
    pub(super) fn end(&mut self, code: u8) -> io::Result<()> {
        self.leave();
        if self.format == OutputFormat::Json {
            self.print_json(&json::end(code));
        }
        self.outcome()
    }

    /// Prints what is left of an interrupted reply. The caller of the command reports the failure.
    ///
    /// # Errors
    /// Returns the first error of standard output.
    pub(super) fn abandon(&mut self) -> io::Result<()> {
        self.leave();
        self.outcome()
    }

    /// Returns the first error of standard output.
    ///
    /// # Errors
    /// That error, once.
    pub(super) fn outcome(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Ends the open text, and removes the state of the turn.
    fn leave(&mut self) {
        let rest = self.view.end_run();
        self.put(rest);
        let ended = self.screen.end();
        self.keep(ended);
    }

    fn keep(&mut self, outcome: io::Result<()>) {
        if self.failed.is_none() {
            self.failed = outcome.err();
        }
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

/// Returns the view for text that is printed and never redrawn.
fn plain_view(format: OutputFormat, shows: TerminalProgress) -> View {
    match (output::is_terminal(), format) {
        (true, OutputFormat::Quiet) => View::whole(Style::Lines, shows),
        (false, OutputFormat::Quiet) => View::whole(Style::Verbatim, shows),
        (true, _) => View::plain(Style::Pieces, shows),
        (false, _) => View::plain(Style::Verbatim, shows),
    }
}
