//! Shows streamed text as early as it can be shown correctly.
//!
//! Decision: Markdown is shown block by block, because the kind of a block can change until it
//! ends: a paragraph becomes a heading, a line a table. Lists are shown item by item and code line
//! by line, since users wait for those. Printed text is never overwritten.
//!
//! The pending text is bounded. It is parsed again only after it has grown by a fraction of its
//! length, so that the work is proportional to the text. A block or a line beyond the bound is
//! shown in parts.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use nanobot_escape::Escaper;

use super::markdown::{is_too_deep, options, render};
use super::preview::completed;
use super::style::Layout;

/// Maximum length of a block or a line that is shown as a whole, in bytes.
const PENDING_LIMIT: usize = 64 << 10;

/// Maximum length of an open block that is previewed as a whole, in bytes.
const PREVIEW_LIMIT: usize = 16 << 10;

/// Maximum length of the fence of a code block that is shown in parts.
const FENCE_LIMIT: usize = 64;

/// Maximum number of bytes of a piece that are processed at once.
const SLICE: usize = 4 << 10;

/// Length up to which the pending text is parsed with each line, in bytes. A longer text is parsed
/// after it has grown by an eighth of the excess.
const EAGER: usize = 256;

/// Display style of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Rendered Markdown.
    Markdown,
    /// Unrendered text, in whole lines.
    Lines,
    /// Unrendered text, piece by piece.
    Pieces,
    /// The exact bytes: for programs.
    Verbatim,
}

/// One run of text.
#[derive(Debug)]
pub(crate) struct TextStream {
    style: Style,
    layout: Layout,
    /// Escapes pieces; Markdown is escaped when it is rendered.
    escaper: Escaper,
    /// Text that is not shown yet, or belongs to an unfinished block.
    pending: String,
    /// Bytes that were added since it was last parsed.
    grown: usize,
    /// Lines of the pending block that were already shown.
    shown: usize,
    /// Bytes of the pending block whose lines were already shown.
    shown_bytes: usize,
    /// Set after a block was finished, so that a blank line separates the next one.
    separated: bool,
    /// Set when the last shown text did not end its line.
    open_line: bool,
}

impl TextStream {
    /// Returns an empty run whose lines are not wrapped.
    #[cfg(test)]
    pub(crate) fn new(style: Style) -> Self {
        Self::with_layout(style, Layout::default())
    }

    /// Returns an empty run whose Markdown is rendered in a layout.
    pub(crate) fn with_layout(style: Style, layout: Layout) -> Self {
        Self {
            style,
            layout,
            escaper: Escaper::default(),
            pending: String::new(),
            grown: 0,
            shown: 0,
            shown_bytes: 0,
            separated: false,
            open_line: false,
        }
    }

    /// Takes a piece and returns the text to print now: nothing, or whole lines unless the style
    /// shows pieces at once.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        match self.style {
            Style::Pieces => {
                let piece = self.escaper.push(piece);
                self.piece(piece)
            }
            Style::Verbatim => self.piece(piece.to_owned()),
            Style::Lines => {
                let piece = self.escaper.push(piece);
                let end = piece
                    .rfind('\n')
                    .map(|index| self.pending.len() + index + 1);
                self.pending.push_str(&piece);
                let is_long = self.pending.len() > PENDING_LIMIT;
                let end = end.unwrap_or(if is_long { self.pending.len() } else { 0 });
                self.pending.drain(..end).collect()
            }
            Style::Markdown => {
                let (mut out, mut rest) = (String::new(), piece);
                while !rest.is_empty() {
                    let (slice, after) = rest
                        .split_at_checked(rest.floor_char_boundary(SLICE))
                        .unwrap_or((rest, ""));
                    out.push_str(&self.markdown(slice));
                    rest = after;
                }
                out
            }
        }
    }

    fn markdown(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        self.grown += piece.len();
        let is_due = self.grown >= self.pending.len().saturating_sub(EAGER) / 8;
        let mut out = if is_due && piece.contains('\n') {
            self.ready_blocks()
        } else {
            String::new()
        };
        if self.pending.len() > PENDING_LIMIT {
            out.push_str(&self.cut_block());
        }
        out
    }

    /// Shows a block that is too long as far as it is complete; the rest is shown directly below.
    fn cut_block(&mut self) -> String {
        let rest = self
            .pending
            .rfind('\n')
            .map_or(String::new(), |index| self.pending.split_off(index + 1));
        let block = std::mem::replace(&mut self.pending, rest);
        let last = LastBlock::of(&block);
        let out = self.block(&block);
        self.separated = false;
        let fence = block
            .get(last.start..)
            .filter(|_| last.is_fenced)
            .and_then(fence_of);
        if let Some(fence) = fence {
            // The following text is still code.
            self.pending.insert_str(0, &format!("{fence}\n"));
        }
        out
    }

    /// Returns the rendering of the block that is still being written, in whole lines without those
    /// that were shown. It follows the shown text until the next call of [`Self::push`] or
    /// [`Self::finish`].
    pub(crate) fn preview(&self) -> String {
        match self.style {
            Style::Markdown if self.pending.trim().is_empty() => String::new(),
            Style::Markdown if self.pending.len() > PREVIEW_LIMIT => self.end_of_preview(),
            Style::Markdown => self.lines_beyond(&render(&completed(&self.pending), self.layout)),
            Style::Lines if self.pending.is_empty() => String::new(),
            Style::Lines => format!("{}\n", self.pending),
            Style::Pieces | Style::Verbatim => String::new(),
        }
    }

    /// Returns the end of a long open block as a block of its own: a screen shows no more of it, and
    /// a frame must not take long.
    fn end_of_preview(&self) -> String {
        let open = self.pending.get(self.shown_bytes..).unwrap_or_default();
        let end = open.ceil_char_boundary(open.len().saturating_sub(PREVIEW_LIMIT));
        let end = open.get(end..).unwrap_or_default();
        render(&completed(end), self.layout)
    }

    /// Ends the run and returns the rest, including a newline.
    pub(crate) fn finish(&mut self) -> String {
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
        *self = Self::with_layout(self.style, self.layout);
        text
    }

    fn piece(&mut self, text: String) -> String {
        if !text.is_empty() {
            self.open_line = !text.ends_with('\n');
        }
        text
    }

    /// Returns finished blocks, and the part of the last one that cannot change.
    fn ready_blocks(&mut self) -> String {
        self.grown = 0;
        // Only a complete line shows which block it belongs to.
        let whole_lines = self
            .pending
            .rsplit_once('\n')
            .map_or("", |(lines, _)| lines);
        let last = LastBlock::of(whole_lines);
        let ended: String = self.pending.drain(..last.start).collect();
        let mut out = if ended.trim().is_empty() {
            String::new()
        } else {
            self.block(&ended)
        };
        if last.certain > last.start {
            let certain = self
                .pending
                .get(..last.certain - last.start)
                .map(|certain| render(certain, self.layout))
                .unwrap_or_default();
            out.push_str(&self.lines_beyond(&certain));
            self.shown = certain.lines().count();
            self.shown_bytes = last.certain - last.start;
        }
        out
    }

    /// Returns the lines of a finished block that were not shown yet.
    fn block(&mut self, markdown: &str) -> String {
        let rendered = render(markdown, self.layout);
        let out = self.lines_beyond(&rendered);
        self.shown = 0;
        self.shown_bytes = 0;
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

/// The last block of a text, which may still grow.
struct LastBlock {
    /// Offset of its beginning, in bytes.
    start: usize,
    /// Offset up to which more text cannot change its rendering, in bytes.
    certain: usize,
    /// Set when it is fenced code.
    is_fenced: bool,
}

impl LastBlock {
    fn of(markdown: &str) -> Self {
        let mut last = Self {
            start: 0,
            certain: 0,
            is_fenced: false,
        };
        if is_too_deep(markdown) {
            return last;
        }
        let mut depth = 0_usize;
        let mut is_list = false;
        for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        is_list = matches!(tag, Tag::List(_));
                        let is_code = matches!(tag, Tag::CodeBlock(_));
                        let is_fenced = matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_)));
                        let certain = if is_code { markdown.len() } else { range.start };
                        last = Self {
                            start: range.start,
                            certain,
                            is_fenced,
                        };
                    } else if depth == 1 && is_list && matches!(tag, Tag::Item) {
                        last.certain = range.start;
                    }
                    depth += 1;
                }
                Event::End(_) => depth = depth.saturating_sub(1),
                Event::Rule if depth == 0 => {
                    last = Self {
                        start: range.start,
                        certain: range.start,
                        is_fenced: false,
                    };
                }
                _ => {}
            }
        }
        last
    }
}

/// Returns the opening backticks or tildes of a code block, unless they are implausibly many.
fn fence_of(block: &str) -> Option<&str> {
    let block = block.trim_start();
    let sign = block.chars().next()?;
    let length = block.len() - block.trim_start_matches(sign).len();
    block
        .get(..length)
        .filter(|fence| fence.len() <= FENCE_LIMIT)
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::{HOSTILE_MARKDOWN, check_bounded};
    use proptest::prelude::*;

    use super::*;
    use crate::output::Palette;

    #[test]
    fn endless_block_is_shown_in_parts() {
        let lines = 20_000;
        let table = [
            ("paragraph", "", "word\n", "word\n"),
            ("items", "", "- word\n", "• word\n"),
            ("code", "````rust\n", "*word*\n", "    *word*\n"),
            ("one line", "", "word word ", "word word "),
        ];
        for (case, before, unit, shown) in table {
            let pieces =
                std::iter::once(before.to_owned()).chain((0..lines).map(|_| unit.to_owned()));
            let (text, parts) = streamed(Style::Markdown, pieces);
            assert_eq!(text.matches(shown.trim_end()).count(), lines, "{case}");
            assert!(
                parts.iter().all(|part| part.len() <= 2 * PENDING_LIMIT),
                "{case}"
            );
            assert!(!text.contains("\n\n"), "{case}");
        }
        let (_, parts) = streamed(Style::Lines, (0..lines).map(|_| "word word ".to_owned()));
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= 2 * PENDING_LIMIT));
    }

    const REPLY: &str = "# Title\n\nA paragraph with **bold**\nin two lines.\n\n- one\n- two\n  - deep\n- three\n\n1. a\n\n2. b\n\n```sh\nls\n\ncat x\n```\n\nafter\n\n> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\nend";

    fn streamed(style: Style, pieces: impl Iterator<Item = String>) -> (String, Vec<String>) {
        let mut stream = TextStream::new(style);
        let mut parts: Vec<String> = pieces
            .map(|piece| stream.push(&piece))
            .filter(|part| !part.is_empty())
            .collect();
        parts.push(stream.finish());
        (parts.concat(), parts)
    }

    #[test]
    fn chunking_does_not_change_the_output() {
        for size in [1, 3, 7, 50, 1000] {
            let characters: Vec<char> = REPLY.chars().collect();
            let pieces = characters.chunks(size).map(|piece| piece.iter().collect());
            let (shown, parts) = streamed(Style::Markdown, pieces);
            assert_eq!(
                shown,
                render(REPLY, Layout::default()),
                "in pieces of {size}"
            );
            assert!(
                parts
                    .iter()
                    .all(|part| part.is_empty() || part.ends_with('\n'))
            );
        }
    }

    #[test]
    fn items_and_code_lines_are_shown_immediately() {
        let mut stream = TextStream::new(Style::Markdown);
        let mut shown = Vec::new();
        for line in [
            "text\n", "\n", "- one\n", "- two\n", "\n", "```\n", "code\n", "more\n", "```\n",
        ] {
            shown.push(stream.push(line));
        }
        shown.push(stream.finish());
        let expected = [
            "",
            "",
            "text\n",
            "\n• one\n",
            "",
            "• two\n",
            "\n    code\n",
            "    more\n",
            "",
            "",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn raw_styles_remove_only_control_characters() {
        let pieces = || {
            ["**a", "\nb\u{7}", "c\n", "d"]
                .into_iter()
                .map(str::to_owned)
        };
        assert_eq!(
            streamed(Style::Pieces, pieces()).1,
            ["**a", "\nb", "c\n", "d", "\n"]
        );
        assert_eq!(streamed(Style::Lines, pieces()).1, ["**a\n", "bc\n", "d\n"]);
    }

    fn layouts() -> impl Iterator<Item = Layout> {
        [Some(20), Some(40), Some(80), None]
            .into_iter()
            .map(|width| Layout {
                width,
                ..Layout::default()
            })
    }

    /// Blocks with Chinese text, emoji of several characters and combining marks.
    const BLOCKS: [&str; 12] = [
        "# Überschrift e\u{301}e\u{301} **fett** und noch mehr Text\n\n",
        "A paragraph with **bold**, *italic* and `code` that is wider than a narrow terminal,\nin two lines.\n\n",
        "你好，世界。这是一个没有空格的长段落，用来检查换行是否正确。\n\n",
        "👩\u{200d}💻👨\u{200d}👩\u{200d}👧🏳\u{fe0f}\u{200d}🌈👩🏽\u{200d}🚀👩\u{200d}💻👩\u{200d}💻👩\u{200d}💻👩\u{200d}💻👩\u{200d}💻👩\u{200d}💻\n\n",
        "- one **two** three four five six\n- [link](https://example.org/a_b/c?d=e) and more\n  - 深い項目です、とても長いので折り返します\n- three\n\n",
        "1. a\n\n2. b\n\n",
        "```rust\nfn main() {\n\tlet text = \"a line that is far too long for a narrow terminal\";\n\n}\n```\n\n",
        "> quoted text that is wrapped on several rows\n> > deeper\n\n",
        "| name | 说明 | n |\n|---|:-:|--:|\n| **a** | 一个很长的说明，需要换行显示 | 1 |\n| b | short | 22 |\n\n",
        "---\n\n",
        "https://example.org/a/very/long/address/that/fits/on/no/row/of/a/narrow/terminal\n\n",
        "<details>\nraw *html*\n</details>\n\n",
    ];

    fn reply() -> impl Strategy<Value = (String, Vec<usize>)> {
        let blocks = proptest::collection::vec(proptest::sample::select(&BLOCKS[..]), 0..8);
        let sizes = proptest::collection::vec(1_usize..40, 1..8);
        (blocks, sizes).prop_map(|(blocks, sizes)| (blocks.concat(), sizes))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn shown_text_and_preview_are_the_whole_reply((reply, sizes) in reply()) {
            for layout in layouts() {
                let whole = render(&reply, layout);
                let mut stream = TextStream::with_layout(Style::Markdown, layout);
                let mut shown = String::new();
                let mut characters = reply.chars();
                for size in sizes.iter().cycle() {
                    let piece: String = characters.by_ref().take(*size).collect();
                    if piece.is_empty() {
                        break;
                    }
                    shown.push_str(&stream.push(&piece));
                    prop_assert!(whole.starts_with(&shown));
                    stream.preview();
                }
                let preview = stream.preview();
                let rest = stream.finish();
                prop_assert_eq!(&preview, &rest);
                shown.push_str(&rest);
                prop_assert_eq!(shown, whole);
            }
        }

        #[test]
        fn rows_fit_the_width((reply, _) in reply(), width in 12_usize..100) {
            let layout = Layout { width: Some(width), palette: Palette::Plain };
            for row in render(&reply, layout).lines() {
                prop_assert!(super::super::wrap::width(row) <= width, "{row:?}");
            }
        }
    }

    #[test]
    fn preview_shows_the_open_block() {
        let mut stream = TextStream::new(Style::Markdown);
        let table = [
            ("some **bo", "", "some \u{1b}[1mbo\u{1b}[0m\n"),
            ("ld**", "", "some \u{1b}[1mbold\u{1b}[0m\n"),
            ("\n\n```\nls", "some \u{1b}[1mbold\u{1b}[0m\n", "\n    ls\n"),
            ("\n``", "\n    ls\n", ""),
            ("`\n\n| a |", "", "\n\u{1b}[1ma\u{1b}[0m\n─\n"),
        ];
        for (piece, shown, preview) in table {
            assert_eq!(stream.push(piece), shown, "{piece:?}");
            assert_eq!(stream.preview(), preview, "{piece:?}");
        }
    }

    #[test]
    fn preview_of_raw_lines_is_the_open_line() {
        let mut stream = TextStream::new(Style::Lines);
        assert_eq!(stream.push("one\ntw"), "one\n");
        assert_eq!(stream.preview(), "tw\n");
    }

    /// Returns malicious replies; those of one repeated unit are `size` bytes long.
    fn hostile_replies(size: usize) -> impl Iterator<Item = String> {
        let flat = HOSTILE_MARKDOWN
            .into_iter()
            .map(move |unit| unit.repeat(size / unit.len()));
        let lazy = format!("{}a\n{}", "> ".repeat(10_000), "a\n".repeat(20_000));
        let styles = format!("{}{}", "*a _b ".repeat(5000), "c_ d*\n".repeat(5000));
        let stairs: String = (0..600)
            .map(|depth| " ".repeat(2 * depth) + "- a\n")
            .collect();
        let wide = format!(
            "{}\n{}\n{}",
            "|a".repeat(8000),
            "|-".repeat(8000),
            "|\n".repeat(8000)
        );
        let padded = format!("|{}|\n|-|\n{}", "a".repeat(20_000), "|a|\n".repeat(10_000));
        let references = format!("[a]: {}\n\n{}", "x".repeat(10_000), "[a] ".repeat(10_000));
        let columns = format!(
            "{}\n{}\n{}",
            "|head".repeat(300),
            "|-".repeat(300),
            format!("{}\n", "|some text".repeat(300)).repeat(60)
        );
        let names = format!(
            "|{}|b|\n|-|-|\n{}",
            "a".repeat(20_000),
            "|a|b|\n".repeat(5000)
        );
        let marks = format!("a{}", "\u{301}".repeat(size / 2));
        let joined = "👩\u{200d}".repeat(size / 7);
        let wide_text = "你好".repeat(size / 6);
        let cell = format!("|a|b|\n|-|-|\n|{}|c|\n", "你 ".repeat(size / 4));
        flat.chain([
            lazy, styles, stairs, wide, padded, references, columns, names, marks, joined,
            wide_text, cell,
        ])
    }

    fn show_in_pieces(reply: &str, size: usize, style: Style, layout: Layout) {
        let mut stream = TextStream::with_layout(style, layout);
        let mut rest = reply;
        let mut unseen = 0;
        while let Some((piece, after)) = rest.split_at_checked(rest.floor_char_boundary(size)) {
            stream.push(piece);
            unseen += piece.len();
            if unseen >= SEEN {
                stream.preview();
                unseen = 0;
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        stream.finish();
    }

    /// Bytes after which a test looks at the preview.
    const SEEN: usize = 16 << 10;

    /// Malicious replies, whole and in pieces, in layouts without and with little room.
    #[test]
    fn hostile_replies_are_shown_in_bounded_memory_and_time() {
        let unwrapped = hostile_replies(4 * PENDING_LIMIT).map(|reply| (reply, None));
        let narrow = [1, 20].into_iter().flat_map(|width| {
            hostile_replies(PENDING_LIMIT / 4).map(move |reply| (reply, Some(width)))
        });
        let test =
            "terminal::render::stream::tests::hostile_replies_are_shown_in_bounded_memory_and_time";
        check_bounded(test, unwrapped.chain(narrow), |(reply, width)| {
            let layout = Layout {
                width,
                ..Layout::default()
            };
            if width.is_some() {
                show_in_pieces(&reply, 50, Style::Markdown, layout);
                return;
            }
            for style in [Style::Markdown, Style::Lines, Style::Pieces] {
                show_in_pieces(&reply, 7, style, layout);
                show_in_pieces(&reply, reply.len(), style, layout);
            }
        })
        .unwrap();
    }
}
