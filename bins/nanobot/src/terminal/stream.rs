//! Text that arrives in pieces, shown as early as it can be shown rightly.
//!
//! Decision: Markdown is shown block by block, because what a block is can change until it ends: a
//! paragraph becomes a heading, a line a table. Lists are shown item by item and code line by line,
//! since those are what one waits for. Nothing that was printed is ever printed over.

use pulldown_cmark::{Event, Parser, Tag};

use nanobot_escape::Escaper;

use super::markdown::{options, render};

/// How a reply is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Markdown, rendered.
    Markdown,
    /// As it was written, in whole lines.
    Lines,
    /// As it was written, at once.
    Pieces,
    /// As it was written, to the byte: for programs.
    Verbatim,
}

/// One run of text.
#[derive(Debug)]
pub(super) struct TextStream {
    style: Style,
    /// Escapes pieces; Markdown is escaped when it is rendered.
    escaper: Escaper,
    /// What is not shown yet, or belongs to a block that is not finished.
    pending: String,
    /// Lines of the pending block that are shown already.
    shown: usize,
    /// Whether a block was finished before, so that a blank line separates the next.
    separated: bool,
    /// Whether what was shown last did not end its line.
    open_line: bool,
}

impl TextStream {
    /// An empty run.
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            escaper: Escaper::default(),
            pending: String::new(),
            shown: 0,
            separated: false,
            open_line: false,
        }
    }

    /// Takes a piece and returns what is to be printed now: nothing, or whole lines unless the style shows
    /// pieces at once.
    pub(super) fn push(&mut self, piece: &str) -> String {
        match self.style {
            Style::Pieces => {
                let piece = self.escaper.push(piece);
                self.piece(piece)
            }
            Style::Verbatim => self.piece(piece.to_owned()),
            Style::Lines => {
                let piece = self.escaper.push(piece);
                self.pending.push_str(&piece);
                let end = self.pending.rfind('\n').map_or(0, |index| index + 1);
                self.pending.drain(..end).collect()
            }
            Style::Markdown => {
                self.pending.push_str(piece);
                if piece.contains('\n') { self.ready_blocks() } else { String::new() }
            }
        }
    }

    /// Ends the run and returns the rest, which ends its line.
    pub(super) fn finish(&mut self) -> String {
        let mut rest = std::mem::take(&mut self.pending);
        let held = self.escaper.finish();
        rest.push_str(&held);
        let mut text = match self.style {
            Style::Markdown => self.block(&rest),
            Style::Lines => rest,
            Style::Pieces => self.piece(held),
            Style::Verbatim => String::new(),
        };
        if self.open_line || (!text.is_empty() && !text.ends_with('\n')) {
            text.push('\n');
        }
        *self = Self::new(self.style);
        text
    }

    fn piece(&mut self, text: String) -> String {
        if !text.is_empty() {
            self.open_line = !text.ends_with('\n');
        }
        text
    }

    /// Blocks that have ended, and what is certain of the last one.
    fn ready_blocks(&mut self) -> String {
        // What a line belongs to is known when it is whole.
        let whole_lines = self.pending.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let last = LastBlock::of(whole_lines);
        let ended: String = self.pending.drain(..last.start).collect();
        let mut out = if ended.trim().is_empty() { String::new() } else { self.block(&ended) };
        if last.certain > last.start {
            let certain = self.pending.get(..last.certain - last.start).map(render).unwrap_or_default();
            out.push_str(&self.lines_beyond(&certain));
            self.shown = certain.lines().count();
        }
        out
    }

    /// A finished block: its lines that are not shown yet.
    fn block(&mut self, markdown: &str) -> String {
        let rendered = render(markdown);
        let out = self.lines_beyond(&rendered);
        self.shown = 0;
        self.separated |= !rendered.is_empty();
        out
    }

    fn lines_beyond(&self, rendered: &str) -> String {
        let mut out = String::new();
        if self.shown == 0 && self.separated && !rendered.is_empty() {
            out.push('\n');
        }
        out.extend(rendered.split_inclusive('\n').skip(self.shown));
        out
    }
}

/// The block that a text ends in, which may still grow.
struct LastBlock {
    /// Where it begins.
    start: usize,
    /// Up to where more text cannot change how it is shown.
    certain: usize,
}

impl LastBlock {
    fn of(markdown: &str) -> Self {
        let mut last = Self { start: 0, certain: 0 };
        let mut depth = 0_usize;
        let mut is_list = false;
        for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        is_list = matches!(tag, Tag::List(_));
                        let is_code = matches!(tag, Tag::CodeBlock(_));
                        last = Self { start: range.start, certain: if is_code { markdown.len() } else { range.start } };
                    } else if depth == 1 && is_list && matches!(tag, Tag::Item) {
                        last.certain = range.start;
                    }
                    depth += 1;
                }
                Event::End(_) => depth = depth.saturating_sub(1),
                Event::Rule if depth == 0 => last = Self { start: range.start, certain: range.start },
                _ => {}
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str = "# Title\n\nA paragraph with **bold**\nin two lines.\n\n- one\n- two\n  - deep\n- three\n\n1. a\n\n2. b\n\n```sh\nls\n\ncat x\n```\n\nafter\n\n> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\nend";

    fn streamed(style: Style, pieces: impl Iterator<Item = String>) -> (String, Vec<String>) {
        let mut stream = TextStream::new(style);
        let mut parts: Vec<String> = pieces.map(|piece| stream.push(&piece)).filter(|part| !part.is_empty()).collect();
        parts.push(stream.finish());
        (parts.concat(), parts)
    }

    #[test]
    fn however_it_arrives_it_looks_the_same() {
        for size in [1, 3, 7, 50, 1000] {
            let characters: Vec<char> = REPLY.chars().collect();
            let pieces = characters.chunks(size).map(|piece| piece.iter().collect());
            let (shown, parts) = streamed(Style::Markdown, pieces);
            assert_eq!(shown, render(REPLY), "in pieces of {size}");
            assert!(parts.iter().all(|part| part.is_empty() || part.ends_with('\n')));
        }
    }

    #[test]
    fn items_and_code_lines_are_shown_as_they_come() {
        let mut stream = TextStream::new(Style::Markdown);
        let mut shown = Vec::new();
        for line in ["text\n", "\n", "- one\n", "- two\n", "\n", "```\n", "code\n", "more\n", "```\n"] {
            shown.push(stream.push(line));
        }
        shown.push(stream.finish());
        let expected = ["", "", "text\n", "\n• one\n", "", "• two\n", "\n    code\n", "    more\n", "", ""];
        assert_eq!(shown, expected);
    }

    #[test]
    fn raw_styles_change_nothing_but_control_characters() {
        let pieces = || ["**a", "\nb\u{7}", "c\n", "d"].into_iter().map(str::to_owned);
        assert_eq!(streamed(Style::Pieces, pieces()).1, ["**a", "\nb", "c\n", "d", "\n"]);
        assert_eq!(streamed(Style::Lines, pieces()).1, ["**a\n", "bc\n", "d\n"]);
    }
}
