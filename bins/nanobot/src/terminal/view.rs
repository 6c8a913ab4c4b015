//! What of a turn is shown, and when.
//!
//! Decision: pieces of a stream are decoration and may be lost. The whole reply comes in the end; if
//! what was shown is not it, it is shown again as a whole.

use nanobot_runtime::TerminalEvent;

use super::markdown::{DIM, styled};
use super::stream::{Style, TextStream};

/// Something to print.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Of a reply; ends its line unless pieces are shown at once.
    Reply(String),
    /// About the work, a line or more.
    Note(String),
}

/// Turns events into what is printed.
#[derive(Debug)]
pub(super) struct View {
    /// Replies as they are written; without it they are shown when they are whole.
    stream: Option<TextStream>,
    style: Style,
    is_coloured: bool,
    /// Stands above each reply.
    heading: Option<&'static str>,
    is_under_heading: bool,
    /// The text of the current run, or of the last one that ended.
    run: String,
    has_run_ended: bool,
}

impl View {
    /// A view on a terminal.
    pub(super) fn terminal(style: Style, is_coloured: bool) -> Self {
        Self { stream: Some(TextStream::new(style)), heading: Some("🐈 nanobot"), is_coloured, ..Self::whole(style) }
    }

    /// A view that shows replies when they are whole.
    pub(super) fn whole(style: Style) -> Self {
        Self {
            stream: None,
            style,
            is_coloured: false,
            heading: None,
            is_under_heading: false,
            run: String::new(),
            has_run_ended: false,
        }
    }

    /// What is to be printed now.
    pub(super) fn show(&mut self, event: &TerminalEvent) -> Vec<Piece> {
        match event {
            TerminalEvent::Delta(text) => self.delta(text),
            TerminalEvent::StreamEnd { .. } => {
                self.has_run_ended = true;
                self.end_run()
            }
            TerminalEvent::Progress(text) if self.is_shown(text) => Vec::new(),
            TerminalEvent::TurnEnd { .. } => Vec::new(),
            TerminalEvent::Progress(text) | TerminalEvent::ToolHint(text) => {
                let mut pieces = self.end_run();
                pieces.push(Piece::Note(self.note(text)));
                self.is_under_heading = false;
                pieces
            }
            TerminalEvent::Reply { text, streamed, .. } => self.reply(text, *streamed),
        }
    }

    fn delta(&mut self, text: &str) -> Vec<Piece> {
        if self.has_run_ended {
            self.run.clear();
            self.has_run_ended = false;
        }
        let Some(stream) = &mut self.stream else { return Vec::new() };
        self.run.push_str(text);
        let shown = stream.push(text);
        self.under_heading(shown)
    }

    fn reply(&mut self, text: &str, streamed: bool) -> Vec<Piece> {
        let mut pieces = self.end_run();
        if !(streamed && self.is_shown(text)) {
            let mut whole = TextStream::new(self.style);
            let shown = whole.push(text) + &whole.finish();
            pieces.extend(self.under_heading(shown));
        }
        self.run.clear();
        self.is_under_heading = false;
        pieces
    }

    /// Whether the text was shown piece by piece already.
    fn is_shown(&self, text: &str) -> bool {
        self.stream.is_some() && !self.run.is_empty() && self.run.trim() == text.trim()
    }

    fn end_run(&mut self) -> Vec<Piece> {
        let rest = self.stream.as_mut().map(TextStream::finish).unwrap_or_default();
        self.under_heading(rest)
    }

    fn under_heading(&mut self, text: String) -> Vec<Piece> {
        if text.is_empty() {
            return Vec::new();
        }
        let Some(heading) = self.heading.filter(|_| !self.is_under_heading) else {
            return vec![Piece::Reply(text)];
        };
        self.is_under_heading = true;
        vec![Piece::Reply(format!("{}\n", self.dim(heading))), Piece::Reply(text)]
    }

    fn note(&self, text: &str) -> String {
        let text = crate::output::harmless(text.trim());
        let lines: Vec<String> = text.lines().map(|line| self.dim(&format!("  ↳ {line}")) + "\n").collect();
        lines.concat()
    }

    fn dim(&self, text: &str) -> String {
        if self.is_coloured { styled(DIM, text) } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: &mut View, events: &[TerminalEvent]) -> String {
        let pieces = events.iter().flat_map(|event| view.show(event));
        pieces
            .map(|piece| match piece {
                Piece::Reply(text) => text,
                Piece::Note(text) => format!("note:{text}"),
            })
            .collect()
    }

    fn delta(text: &str) -> TerminalEvent {
        TerminalEvent::Delta(text.to_owned())
    }

    fn reply(text: &str, streamed: bool) -> TerminalEvent {
        TerminalEvent::Reply { text: text.to_owned(), streamed, ok: true }
    }

    #[test]
    fn a_turn_with_tools_is_shown_once() {
        let mut view = View::terminal(Style::Lines, false);
        let events = [
            delta("Let me "),
            delta("look."),
            TerminalEvent::StreamEnd { resuming: true },
            TerminalEvent::Progress("Let me look.".to_owned()),
            TerminalEvent::ToolHint("list_dir(\".\")".to_owned()),
            delta("Two files.\n"),
            TerminalEvent::StreamEnd { resuming: false },
            reply("Two files.", true),
            reply("And a reminder.", false),
        ];
        assert_eq!(
            shown(&mut view, &events),
            "🐈 nanobot\nLet me look.\nnote:  ↳ list_dir(\".\")\n🐈 nanobot\nTwo files.\n🐈 nanobot\nAnd a reminder.\n"
        );
    }

    #[test]
    fn a_stream_with_gaps_is_followed_by_the_whole_reply() {
        let mut view = View::terminal(Style::Lines, false);
        let events = [delta("one th"), TerminalEvent::StreamEnd { resuming: false }, reply("one two three", true)];
        assert_eq!(shown(&mut view, &events), "🐈 nanobot\none th\none two three\n");
    }

    #[test]
    fn a_pipe_gets_whole_replies() {
        let mut view = View::whole(Style::Lines);
        let events = [delta("hel"), delta("lo"), TerminalEvent::StreamEnd { resuming: false }, reply("hello", true)];
        assert_eq!(shown(&mut view, &events), "hello\n");
    }
}
