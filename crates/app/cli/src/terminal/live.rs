//! The screen during one message: finished text, and below it the open text and the status.

use std::io::{self, IsTerminal as _, Stdout};
use std::time::Instant;

use nanobot_runtime::TerminalEvent;

use super::render::{DIM, painted};
use super::screen::{Frame, FramePace, LiveRegion};
use super::status::TurnStatus;
use super::view::View;
use crate::output::{self, Palette};

const ERASE_LINE: &str = "\r\u{1b}[K";

/// The place where the state of a running turn is shown.
pub(super) enum LiveScreen {
    /// Below the reply, on the terminal that shows both.
    Reply(Box<LiveReply>),
    /// On standard error, while standard output goes elsewhere.
    Status(StatusLine),
    /// Nowhere.
    Nothing,
}

impl LiveScreen {
    /// Returns the place for a message whose output is read by people.
    pub(super) fn for_people() -> Self {
        if output::is_dumb() {
            Self::Nothing
        } else if output::is_terminal() {
            Self::Reply(Box::new(LiveReply::new()))
        } else if io::stderr().is_terminal() {
            Self::Status(StatusLine::default())
        } else {
            Self::Nothing
        }
    }

    /// Shows that a turn begins.
    pub(super) fn begin(&mut self, view: &View) -> io::Result<()> {
        let status = Some(TurnStatus::begin(view.names_tools()));
        match self {
            Self::Reply(reply) => {
                reply.status = status;
                reply.draw(view)
            }
            Self::Status(line) => {
                line.status = status;
                line.draw();
                Ok(())
            }
            Self::Nothing => Ok(()),
        }
    }

    /// Records an event of the turn, before its text is shown.
    pub(super) fn record(&mut self, event: &TerminalEvent) {
        match self {
            Self::Reply(reply) => {
                if let Some(status) = &mut reply.status {
                    status.record(event);
                }
            }
            Self::Status(line) => line.record(event),
            Self::Nothing => {}
        }
    }

    /// Redraws the status, with the present size of the screen.
    pub(super) fn tick(&mut self, view: &mut View) -> io::Result<()> {
        match self {
            Self::Reply(reply) => {
                reply.fit(view);
                if let Some(status) = &mut reply.status {
                    status.tick();
                }
                reply.draw(view)
            }
            Self::Status(line) => {
                if let Some(status) = &mut line.status {
                    status.tick();
                }
                line.draw();
                Ok(())
            }
            Self::Nothing => Ok(()),
        }
    }

    /// Removes a status that text is about to be printed over.
    pub(super) fn make_room(&mut self) {
        if let Self::Status(line) = self {
            line.clear();
        }
    }

    /// Removes the status; what is printed next begins a line.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Self::Nothing) {
            Self::Reply(mut reply) => {
                let lines = std::mem::take(&mut reply.lines);
                reply.region.leave(&lines)
            }
            Self::Status(mut line) => {
                line.clear();
                Ok(())
            }
            Self::Nothing => Ok(()),
        }
    }
}

/// A reply on a terminal, with the status of its turn.
pub(super) struct LiveReply {
    region: LiveRegion<Stdout>,
    /// Columns and rows of the screen.
    size: (u16, u16),
    status: Option<TurnStatus>,
    /// Finished lines that are not on the screen yet.
    lines: String,
    pace: FramePace,
}

impl LiveReply {
    fn new() -> Self {
        let size = output::screen_size().unwrap_or_default();
        Self {
            region: LiveRegion::new(io::stdout(), size),
            size,
            status: None,
            lines: String::new(),
            pace: FramePace::default(),
        }
    }

    /// Takes the present size of the screen.
    fn fit(&mut self, view: &mut View) {
        if let Some(size) = output::screen_size()
            && size != self.size
        {
            self.size = size;
            self.region.resize(size);
            view.resize(self.region.width());
        }
    }

    /// Adds finished lines.
    pub(super) fn push(&mut self, lines: &str) {
        self.lines.push_str(lines);
    }

    /// Draws what has changed, unless the last frame was just drawn: words may come faster than a
    /// screen shows them.
    pub(super) fn draw_soon(&mut self, view: &View) -> io::Result<()> {
        if self.pace.next_frame() > Instant::now() {
            return Ok(());
        }
        self.draw(view)
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, view: &View) -> io::Result<()> {
        let begun = Instant::now();
        let lines = std::mem::take(&mut self.lines);
        let width = self.region.width();
        let status = self.status.as_ref();
        let status = status.map(|status| view.dim(&status.line(width.saturating_sub(1))));
        let room = self.region.height().saturating_sub(2);
        let mut rows = view.open_rows(room);
        // The cursor is at the end, where the terminal shows keys that are typed meanwhile.
        rows.extend(status);
        rows.push(String::new());
        let cursor = (rows.len() - 1, 0);
        let drawn = self.region.draw(&lines, Frame { rows, cursor });
        self.pace.drawn(begun);
        drawn
    }
}

/// A status line on standard error. It is absent while a line of the reply is open, because both
/// may be on the same screen.
#[derive(Default)]
pub(super) struct StatusLine {
    status: Option<TurnStatus>,
    is_shown: bool,
    is_reply_open: bool,
}

impl StatusLine {
    fn record(&mut self, event: &TerminalEvent) {
        if let Some(status) = &mut self.status {
            status.record(event);
        }
        match event {
            TerminalEvent::Delta(_) => self.is_reply_open = true,
            TerminalEvent::StreamEnd { .. } => self.is_reply_open = false,
            _ => {}
        }
    }

    fn draw(&mut self) {
        let Some(status) = self.status.as_ref().filter(|_| !self.is_reply_open) else {
            return;
        };
        let (width, _) = output::screen_size().unwrap_or((80, 24));
        let line = status.line(usize::from(width).saturating_sub(1));
        output::note_piece(&format!(
            "{ERASE_LINE}{}",
            painted(&line, DIM, Palette::of_errors())
        ));
        self.is_shown = true;
    }

    /// Removes the line until it is drawn again.
    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            output::note_piece(ERASE_LINE);
        }
    }
}
