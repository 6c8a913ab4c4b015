//! Decides which events of a turn are printed, and when.
//!
//! Decision: pieces of a stream may be lost. The whole reply arrives at the end; if it differs from
//! what was shown, it is shown again as a whole. Without `sendProgress` nothing is shown piece by
//! piece: the first words may turn out to accompany a tool call, and cannot be taken back. For the
//! same reason a pipe gets these words with the reply; the reply alone is for `--quiet`.

mod incoming;

use nanobot_runtime::types::TurnActivity;
use nanobot_runtime::{TerminalEvent, TerminalProgress};
use unicode_width::UnicodeWidthStr as _;

use super::render::{DIM, Layout, Style, TextStream, diff, painted, wrapped};
use super::status::tool_line;
use crate::output::Palette;

/// Maximum number of rows of a change that are shown with its tool; `/diff` shows all.
const CHANGE_ROWS: usize = 12;
const CHANGE_INDENT: &str = "    ";
/// Beginning of the first row of a note.
const NOTE_MARK: &str = "  ↳ ";
/// Beginning of its other rows.
const NOTE_INDENT: &str = "    ";

/// Text to print.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ViewPiece {
    /// Part of a reply; ends its line unless pieces are shown at once.
    Reply(String),
    /// About the progress, one or more lines.
    Note(String),
}

/// Converts events into text to print.
#[derive(Debug)]
pub(super) struct View {
    /// Shows replies as they arrive; `None` if they are shown as a whole.
    stream: Option<TextStream>,
    style: Style,
    layout: Layout,
    shows: TerminalProgress,
    /// Shown above each reply.
    heading: Option<&'static str>,
    is_under_heading: bool,
    /// Text of the current run, or of the last one that ended.
    run: String,
    has_run_ended: bool,
    /// Set when the steps of a turn are shown one by one, instead of a hint for several.
    shows_steps: bool,
}

impl View {
    /// Returns a view for a terminal.
    pub(super) fn terminal(style: Style, layout: Layout, shows: TerminalProgress) -> Self {
        let stream = shows
            .thoughts
            .then(|| TextStream::with_layout(style, layout));
        Self {
            stream,
            heading: Some("🐈 nanobot"),
            layout,
            shows_steps: true,
            ..Self::whole(style, shows)
        }
    }

    /// Returns a view that shows the words as they arrive, without headings.
    pub(super) fn plain(style: Style, shows: TerminalProgress) -> Self {
        let whole = Self::whole(style, shows);
        let stream = shows
            .thoughts
            .then(|| TextStream::with_layout(whole.style, whole.layout));
        Self { stream, ..whole }
    }

    /// Returns a view that shows replies as a whole.
    pub(super) fn whole(style: Style, shows: TerminalProgress) -> Self {
        Self {
            stream: None,
            style,
            shows,
            layout: Layout {
                width: None,
                palette: Palette::Plain,
            },
            heading: None,
            is_under_heading: false,
            run: String::new(),
            has_run_ended: false,
            shows_steps: false,
        }
    }

    /// Takes the width of the screen. A run of text keeps the width with which it began.
    pub(super) fn resize(&mut self, width: usize) {
        self.layout.width = Some(width);
    }

    /// Returns the width of the screen and the styles.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the text that is not complete enough to be printed, as rows.
    fn preview(&self) -> String {
        let open = self.stream.as_ref().map(TextStream::preview);
        let open = open.unwrap_or_default();
        match self.heading.filter(|_| !self.is_under_heading) {
            Some(heading) if !open.is_empty() => format!("{}\n{open}", self.dim(heading)),
            _ => open,
        }
    }

    /// Returns the last rows of that text.
    pub(super) fn open_rows(&self, most: usize) -> Vec<String> {
        let preview = self.preview();
        let open: Vec<&str> = preview.lines().collect();
        let shown = open.iter().skip(open.len().saturating_sub(most));
        shown.map(|row| (*row).to_owned()).collect()
    }

    /// Returns the text to print now.
    pub(super) fn show(&mut self, event: &TerminalEvent) -> Vec<ViewPiece> {
        match event {
            TerminalEvent::Delta(text) => self.delta(text),
            TerminalEvent::StreamEnd { .. } => {
                self.has_run_ended = true;
                self.end_run()
            }
            TerminalEvent::Progress(text) if self.is_shown(text) || !self.shows.thoughts => {
                Vec::new()
            }
            TerminalEvent::ToolHint(_) if !self.shows.tool_hints || self.shows_steps => Vec::new(),
            TerminalEvent::Activity(step) => self.step(step),
            TerminalEvent::TurnEnd { .. } => Vec::new(),
            TerminalEvent::Progress(text)
            | TerminalEvent::ToolHint(text)
            | TerminalEvent::News(text)
            | TerminalEvent::Question { text, .. } => {
                let mut pieces = self.end_run();
                pieces.push(ViewPiece::Note(self.note(text)));
                self.is_under_heading = false;
                pieces
            }
            TerminalEvent::Reply {
                text,
                job: Some(job),
                ..
            } => self.job_result(text, job),
            TerminalEvent::Reply { text, streamed, .. } => self.reply(text, *streamed),
            TerminalEvent::Said { text, files } => self.said(text, *files),
        }
    }

    /// Returns the line of a finished tool, and the change that it made in a file.
    fn step(&mut self, step: &TurnActivity) -> Vec<ViewPiece> {
        let TurnActivity::ToolFinished {
            call,
            success,
            elapsed_ms,
            output,
            change,
            ..
        } = step
        else {
            return Vec::new();
        };
        if !self.shows_steps || !self.shows.tool_hints {
            return Vec::new();
        }
        let mut text = tool_line(call, *success, *elapsed_ms);
        if !success && let Some(reason) = output.lines().find(|line| !line.trim().is_empty()) {
            text.push_str(&format!("\n  {}", reason.trim()));
        }
        let mut pieces = self.end_run();
        pieces.push(ViewPiece::Note(self.note(&text)));
        if let Some(change) = change {
            pieces.push(ViewPiece::Note(self.change(change)));
        }
        self.is_under_heading = false;
        pieces
    }

    /// Returns the beginning of a change.
    fn change(&self, change: &str) -> String {
        let layout = Layout {
            width: self
                .layout
                .width
                .map(|width| width.saturating_sub(CHANGE_INDENT.len())),
            ..self.layout
        };
        let rows = diff(change, layout, CHANGE_ROWS);
        rows.lines()
            .map(|row| format!("{CHANGE_INDENT}{row}\n"))
            .collect()
    }

    fn delta(&mut self, text: &str) -> Vec<ViewPiece> {
        if self.has_run_ended {
            self.run.clear();
            self.has_run_ended = false;
        }
        if let Some(stream) = self.stream.as_mut().filter(|_| self.run.is_empty()) {
            *stream = TextStream::with_layout(self.style, self.layout);
        }
        let Some(stream) = &mut self.stream else {
            return Vec::new();
        };
        self.run.push_str(text);
        let shown = stream.push(text);
        self.with_heading(shown)
    }

    fn reply(&mut self, text: &str, streamed: bool) -> Vec<ViewPiece> {
        let mut pieces = self.end_run();
        let unshown = if streamed { self.unshown(text) } else { text };
        if !unshown.is_empty() {
            let mut whole = TextStream::with_layout(self.style, self.layout);
            let shown = whole.push(unshown) + &whole.finish();
            pieces.extend(self.with_heading(shown));
        }
        self.run.clear();
        self.is_under_heading = false;
        pieces
    }

    /// Returns the part of a reply that was not shown piece by piece: an added paragraph, or all of
    /// it.
    fn unshown<'a>(&self, text: &'a str) -> &'a str {
        let shown = self.run.trim();
        let rest = text
            .trim()
            .strip_prefix(shown)
            .filter(|_| self.stream.is_some() && !shown.is_empty());
        rest.filter(|rest| rest.is_empty() || rest.starts_with("\n\n"))
            .map_or(text, str::trim_start)
    }

    /// `true` if the text was already shown piece by piece.
    fn is_shown(&self, text: &str) -> bool {
        self.stream.is_some() && !self.run.is_empty() && self.run.trim() == text.trim()
    }

    /// Ends the open text and returns its rest.
    pub(super) fn end_run(&mut self) -> Vec<ViewPiece> {
        let rest = self
            .stream
            .as_mut()
            .map(TextStream::finish)
            .unwrap_or_default();
        self.with_heading(rest)
    }

    fn with_heading(&mut self, text: String) -> Vec<ViewPiece> {
        if text.is_empty() {
            return Vec::new();
        }
        let Some(heading) = self.heading.filter(|_| !self.is_under_heading) else {
            return vec![ViewPiece::Reply(text)];
        };
        self.is_under_heading = true;
        vec![
            ViewPiece::Reply(format!("{}\n", self.dim(heading))),
            ViewPiece::Reply(text),
        ]
    }

    /// Returns lines about the progress, broken between words.
    pub(super) fn note(&self, text: &str) -> String {
        let text = crate::output::sanitize(text.trim());
        let mut rows = String::new();
        for line in text.lines() {
            let line = match self.layout.width {
                Some(width) => wrapped(line, width.saturating_sub(NOTE_MARK.width()).max(1)),
                None => line.to_owned(),
            };
            for (index, row) in line.lines().enumerate() {
                let mark = if index == 0 { NOTE_MARK } else { NOTE_INDENT };
                rows.push_str(&self.dim(&format!("{mark}{row}")));
                rows.push('\n');
            }
        }
        rows
    }

    /// `true` if the tools of a turn are shown.
    pub(super) fn names_tools(&self) -> bool {
        self.shows.tool_hints
    }

    /// Returns Markdown of the prompt itself, in the style of replies.
    pub(super) fn render(&self, markdown: &str) -> String {
        let mut stream = TextStream::with_layout(self.style, self.layout);
        stream.push(markdown) + &stream.finish()
    }

    /// Returns text for the margin.
    pub(super) fn dim(&self, text: &str) -> String {
        painted(text, DIM, self.layout.palette)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn shown(view: &mut View, events: &[TerminalEvent]) -> String {
        let pieces = events.iter().flat_map(|event| view.show(event));
        pieces
            .map(|piece| match piece {
                ViewPiece::Reply(text) => text,
                ViewPiece::Note(text) => format!("note:{text}"),
            })
            .collect()
    }

    pub(super) const PLAIN: Layout = Layout {
        width: None,
        palette: Palette::Plain,
    };

    pub(super) const ALL: TerminalProgress = TerminalProgress {
        thoughts: true,
        tool_hints: true,
    };

    #[test]
    fn progress_and_hints_are_shown_as_configured() {
        let events = [
            TerminalEvent::News("Restarted.".to_owned()),
            delta("Let me look."),
            TerminalEvent::StreamEnd { resuming: true },
            TerminalEvent::Progress("Let me look.".to_owned()),
            TerminalEvent::ToolHint("exec(\"ls\")".to_owned()),
            finished("exec(\"ls\")"),
            delta("Two."),
            TerminalEvent::StreamEnd { resuming: false },
            reply("Two.", true),
        ];
        let news = "note:  ↳ Restarted.\n";
        let (words, hint) = ("note:  ↳ Let me look.\n", "note:  ↳ exec(\"ls\")\n");
        let step = "note:  ↳ ✓ exec(\"ls\") · 5 ms\n";
        for (thoughts, tool_hints) in [(true, true), (true, false), (false, true), (false, false)] {
            let shows = TerminalProgress {
                thoughts,
                tool_hints,
            };
            let words = if thoughts { words } else { "" };
            let hint = if tool_hints { hint } else { "" };
            let step = if tool_hints { step } else { "" };
            let mut pipe = View::whole(Style::Lines, shows);
            assert_eq!(
                shown(&mut pipe, &events),
                format!("{news}{words}{hint}Two.\n"),
                "{shows:?}"
            );
            let mut terminal = View::terminal(Style::Lines, PLAIN, shows);
            let streamed = if thoughts {
                "🐈 nanobot\nLet me look.\n"
            } else {
                ""
            };
            let heading = if thoughts && !tool_hints {
                ""
            } else {
                "🐈 nanobot\n"
            };
            assert_eq!(
                shown(&mut terminal, &events),
                format!("{news}{streamed}{step}{heading}Two.\n"),
                "{shows:?}"
            );
        }
    }

    fn finished(call: &str) -> TerminalEvent {
        TerminalEvent::Activity(TurnActivity::ToolFinished {
            call: call.to_owned(),
            success: true,
            elapsed_ms: 5,
            output: String::new(),
            output_bytes: 0,
            kept_in: None,
            change: None,
        })
    }

    #[test]
    fn failed_and_changing_tools_show_reason_and_change() {
        let mut view = View::terminal(Style::Lines, PLAIN, ALL);
        let step = |success, output: &str, change: Option<&str>| {
            TerminalEvent::Activity(TurnActivity::ToolFinished {
                call: "edit_file(\"a\")".to_owned(),
                success,
                elapsed_ms: 5,
                output: output.to_owned(),
                output_bytes: 0,
                kept_in: None,
                change: change.map(str::to_owned),
            })
        };
        let events = [
            step(false, "Error: no\u{1b}[2J such file\nmore", None),
            step(true, "", Some("@@ -1 +1 @@\n-a\n+b\n")),
        ];
        assert_eq!(
            shown(&mut view, &events),
            "note:  ↳ ✗ edit_file(\"a\") · 5 ms\n  ↳   Error: no[2J such file\n\
             note:  ↳ ✓ edit_file(\"a\") · 5 ms\nnote:    @@ -1 +1 @@\n    -a\n    +b\n"
        );
    }

    pub(super) fn delta(text: &str) -> TerminalEvent {
        TerminalEvent::Delta(text.to_owned())
    }

    fn reply(text: &str, streamed: bool) -> TerminalEvent {
        TerminalEvent::Reply {
            text: text.to_owned(),
            streamed,
            ok: true,
            job: None,
        }
    }

    #[test]
    fn a_turn_with_tools_is_shown_once() {
        let mut view = View::terminal(Style::Lines, PLAIN, ALL);
        let events = [
            delta("Let me "),
            delta("look."),
            TerminalEvent::StreamEnd { resuming: true },
            TerminalEvent::Progress("Let me look.".to_owned()),
            TerminalEvent::ToolHint("list_dir(\".\")".to_owned()),
            finished("list_dir(\".\")"),
            delta("Two files.\n"),
            TerminalEvent::StreamEnd { resuming: false },
            reply("Two files.", true),
            reply("And a reminder.", false),
        ];
        assert_eq!(
            shown(&mut view, &events),
            "🐈 nanobot\nLet me look.\nnote:  ↳ ✓ list_dir(\".\") · 5 ms\n🐈 nanobot\nTwo files.\n🐈 nanobot\nAnd a reminder.\n"
        );
    }

    #[test]
    fn incomplete_stream_is_followed_by_the_full_reply() {
        let mut view = View::terminal(Style::Lines, PLAIN, ALL);
        let events = [
            delta("one th"),
            TerminalEvent::StreamEnd { resuming: false },
            reply("one two three", true),
        ];
        assert_eq!(
            shown(&mut view, &events),
            "🐈 nanobot\none th\none two three\n"
        );
    }

    #[test]
    fn appended_paragraph_is_shown_alone() {
        let mut view = View::terminal(Style::Lines, PLAIN, ALL);
        let events = [
            delta("one"),
            TerminalEvent::StreamEnd { resuming: false },
            reply("one\n\n[cut]", true),
        ];
        assert_eq!(shown(&mut view, &events), "🐈 nanobot\none\n[cut]\n");
        let events = [
            delta("one"),
            TerminalEvent::StreamEnd { resuming: false },
            reply("one two", true),
        ];
        assert_eq!(shown(&mut view, &events), "🐈 nanobot\none\none two\n");
    }

    #[test]
    fn pipe_prints_words_as_they_arrive() {
        let events = [
            delta("Let me "),
            delta("look."),
            TerminalEvent::StreamEnd { resuming: true },
            TerminalEvent::Progress("Let me look.".to_owned()),
            TerminalEvent::ToolHint("list_dir(\".\")".to_owned()),
            delta("hel"),
        ];
        let mut view = View::plain(Style::Verbatim, ALL);
        assert_eq!(
            shown(&mut view, &events),
            "Let me look.\nnote:  ↳ list_dir(\".\")\nhel"
        );
        let rest = [
            delta("lo"),
            TerminalEvent::StreamEnd { resuming: false },
            reply("hello", true),
        ];
        assert_eq!(shown(&mut view, &rest), "lo\n");
        let mut quiet = View::whole(Style::Verbatim, ALL);
        assert_eq!(shown(&mut quiet, &rest), "hello\n");
    }
}
