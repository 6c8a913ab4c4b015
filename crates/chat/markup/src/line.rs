//! A writer for markups of special characters in the text, such as the Markdown of chat platforms.
//!
//! Decision: marks never cross a line. Every line closes what is open and the next one opens it
//! again, because some platforms require that and the others do not mind, and because then a quote
//! or a heading is a prefix of lines. The meaning of a character depends on its neighbours, so a
//! markup sees the whole line ([`MarkupLine`]).

use std::ops::Range;

use crate::{Document, Mark, Span, slice};

/// Separates characters that would be markup together; invisible.
pub const ZERO_WIDTH_SPACE: char = '\u{200B}';

/// The characters of a markup, for [`render_lines`].
pub trait LineMarkup {
    /// Returns the markup before and after a run of text. `None` if the mark cannot be shown; the
    /// run is then written as if it had no mark. Never called for quotes and code blocks, nor for
    /// headings that have a prefix.
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)>;

    /// Returns the prefix of each line of a heading; `None` if headings are bold text.
    fn heading(&self, level: u8) -> Option<&'static str>;

    /// Returns the prefix of each line of a quote.
    fn quote(&self) -> &'static str;

    /// Returns the lines before and after a code block, with their line ends.
    fn fence(&self, info: &str) -> (String, String);

    /// Appends a piece of a line to `out`, escaped so that the platform reads no markup in it.
    fn text(&self, line: &MarkupLine<'_>, range: Range<usize>, out: &mut String);

    /// Appends [literal](Mark::is_literal) text or the text of a code block to `out`.
    fn literal(&self, mark: &Mark, text: &str, out: &mut String);
}

/// A line of text.
#[derive(Debug)]
pub struct MarkupLine<'a> {
    /// The text, without the line end.
    pub text: &'a str,
    /// The byte offset of the first character that is not white space.
    pub first: usize,
    /// `true` if any part of the line is marked.
    pub marked: bool,
    /// The ASCII punctuation that occurs in it more than once.
    pub repeated: String,
}

impl<'a> MarkupLine<'a> {
    fn new(text: &'a str, marked: bool) -> Self {
        let (mut seen, mut repeated) = (String::new(), String::new());
        for c in text.chars().filter(char::is_ascii_punctuation) {
            if !seen.contains(c) {
                seen.push(c);
            } else if !repeated.contains(c) {
                repeated.push(c);
            }
        }
        Self {
            text,
            first: text.len() - text.trim_start().len(),
            marked,
            repeated,
        }
    }
}

/// A run of text in one line that carries a mark, and its surroundings.
#[derive(Debug)]
pub struct TextRun<'a> {
    /// The marked text.
    pub text: &'a str,
    /// The character before, as written.
    pub before: Option<char>,
    /// The character after, unless another mark ends at the same place.
    pub after: Option<char>,
    /// All of the line after the run, unless another mark ends at the same place.
    pub rest: &'a str,
    /// `true` if another mark ends at the same place.
    pub ends_another: bool,
    /// The [literal](Mark::is_literal) text in it, which cannot be escaped.
    pub literal: String,
}

/// Renders a document in a markup of characters.
#[must_use]
pub fn render_lines(document: &Document, markup: &dyn LineMarkup) -> String {
    let inline: Vec<&Span> = document
        .spans
        .iter()
        .filter(|span| !span.mark.is_pre())
        .collect();
    let mut writer = LineWriter {
        text: &document.text,
        markup,
        spans: &inline,
        open: Vec::new(),
        out: String::new(),
        at: 0,
    };
    for span in &document.spans {
        let Mark::Pre { info } = &span.mark else {
            continue;
        };
        writer.prose(span.range.start);
        writer.code(&span.range, info);
    }
    writer.prose(document.text.len());
    writer.out
}

/// The state of rendering.
struct LineWriter<'a> {
    text: &'a str,
    markup: &'a dyn LineMarkup,
    /// The marks that begin later.
    spans: &'a [&'a Span],
    /// The marks that reach into the line, outer first.
    open: Vec<&'a Span>,
    out: String,
    at: usize,
}

impl LineWriter<'_> {
    /// Writes lines up to `end`; before a code block the last one may be empty and is left out.
    fn prose(&mut self, end: usize) {
        let text = slice(self.text, self.at..end);
        let mut pieces = text.split('\n').peekable();
        let mut start = self.at;
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            let range = start..start + piece.len();
            start = range.end + 1;
            if !piece.is_empty() {
                self.begin_line();
            }
            if !(is_last && piece.is_empty()) {
                self.line(range);
            }
            if !is_last {
                self.out.push('\n');
            }
        }
        self.at = end;
    }

    /// Writes a code block, on lines of its own.
    fn code(&mut self, range: &Range<usize>, info: &str) {
        let (before, after) = self.markup.fence(info);
        self.begin_line();
        self.out.push_str(&before);
        self.markup.literal(
            &Mark::Pre {
                info: String::new(),
            },
            slice(self.text, range.clone()),
            &mut self.out,
        );
        self.out.push_str(&after);
        self.at = range.end;
    }

    fn begin_line(&mut self) {
        if !(self.out.is_empty() || self.out.ends_with('\n')) {
            self.out.push('\n');
        }
    }

    fn line(&mut self, range: Range<usize>) {
        self.open.retain(|span| span.range.end > range.start);
        while let Some((span, rest)) = self.spans.split_first() {
            if span.range.start > range.end {
                break;
            }
            self.spans = rest;
            self.open.push(span);
        }
        let reaching =
            |span: &&&Span| span.range.start <= range.end && span.range.end > range.start;
        let starts_here = self.out.is_empty() || self.out.ends_with('\n');
        if starts_here
            && self
                .open
                .iter()
                .filter(reaching)
                .any(|span| span.mark == Mark::Quote)
        {
            self.out.push_str(self.markup.quote());
        }
        let blank = slice(self.text, range.clone());
        let first = range.start + blank.len() - blank.trim_start().len();
        let heading = self
            .open
            .iter()
            .filter(reaching)
            .find_map(|span| match span.mark {
                Mark::Heading { level } if starts_here && span.range.start <= first => {
                    self.markup.heading(level)
                }
                _ => None,
            });
        self.out.push_str(heading.unwrap_or_default());
        let marks = self.open.iter().filter(reaching).filter_map(|span| {
            let is_inline = match span.mark {
                Mark::Quote | Mark::Pre { .. } => false,
                Mark::Heading { .. } => heading.is_none(),
                _ => true,
            };
            let clipped = span.range.start.max(range.start)..span.range.end.min(range.end);
            is_inline
                .then(|| (trimmed(self.text, clipped), &span.mark))
                .filter(|(range, _)| !range.is_empty())
        });
        let marks: Vec<(Range<usize>, &Mark)> = marks
            .map(|(marked, mark)| (marked.start - range.start..marked.end - range.start, mark))
            .collect();
        let line = MarkupLine::new(
            slice(self.text, range),
            marks.iter().any(|(_, mark)| **mark != Mark::Item),
        );
        let mut inline = Inline {
            line: &line,
            markup: self.markup,
            open: Vec::new(),
            out: &mut self.out,
            at: 0,
        };
        let mut marks = marks.as_slice();
        while let Some(((range, mark), later)) = marks.split_first() {
            let within = later
                .iter()
                .take_while(|(inner, _)| inner.start < range.end);
            let literal = within
                .filter(|(_, mark)| mark.is_literal())
                .map(|(inner, _)| slice(line.text, inner.clone()));
            inline.mark(range.clone(), mark, literal.collect());
            marks = later;
        }
        inline.end();
    }
}

/// Writes the marks of one line.
struct Inline<'a> {
    line: &'a MarkupLine<'a>,
    markup: &'a dyn LineMarkup,
    /// The open marks: the end of each, the mark, and its closing markup.
    open: Vec<(usize, &'a Mark, String)>,
    out: &'a mut String,
    at: usize,
}

impl<'a> Inline<'a> {
    fn mark(&mut self, range: Range<usize>, mark: &'a Mark, literal: String) {
        self.close_until(range.start);
        // Literal text takes no marks inside, and neither do the words of a link.
        if self
            .open
            .iter()
            .any(|(_, outer, _)| outer.is_literal() || matches!(outer, Mark::Link { .. }))
        {
            return;
        }
        self.write_until(range.start);
        let also_ends = self.open.last().is_some_and(|(end, ..)| *end <= range.end);
        let rest = if also_ends {
            ""
        } else {
            slice(self.line.text, range.end..self.line.text.len())
        };
        let run = TextRun {
            text: slice(self.line.text, range.clone()),
            before: self.out.chars().next_back().filter(|c| *c != '\n'),
            after: rest.chars().next(),
            rest,
            ends_another: also_ends,
            literal,
        };
        if let Some((before, after)) = self.markup.around(mark, &run) {
            self.out.push_str(&before);
            self.open.push((range.end, mark, after));
        }
    }

    fn close_until(&mut self, at: usize) {
        while let Some((end, ..)) = self.open.last()
            && *end <= at
        {
            self.write_until(*end);
            if let Some((_, _, after)) = self.open.pop() {
                self.out.push_str(&after);
            }
        }
    }

    fn write_until(&mut self, end: usize) {
        let range = self.at..end;
        match self.open.last() {
            Some((_, mark, _)) if mark.is_literal() => {
                self.markup
                    .literal(mark, slice(self.line.text, range), self.out);
            }
            _ => self.markup.text(self.line, range, self.out),
        }
        self.at = self.at.max(end);
    }

    fn end(mut self) {
        self.close_until(self.line.text.len());
        self.write_until(self.line.text.len());
    }
}

/// Shrinks `range` by the blanks at both ends.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let is_blank = |c: char| c.is_whitespace() || c == ZERO_WIDTH_SPACE;
    let run = slice(text, range.clone());
    let start = range.start + run.len() - run.trim_start_matches(is_blank).len();
    start..start + run.trim_matches(is_blank).len()
}

/// Returns the length of the longest run of backticks in `text`.
#[must_use]
pub fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default()
}

/// Appends the text of a code block to `out`, each character by `push`. A [`ZERO_WIDTH_SPACE`]
/// divides three backticks, which would end the block.
pub fn push_fenced(text: &str, mut push: impl FnMut(char, &mut String), out: &mut String) {
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        if run == 3 {
            out.push(ZERO_WIDTH_SPACE);
            run = 1;
        }
        push(c, out);
    }
}

/// Returns the characters of a piece of a line: the byte offset of each, the character before it,
/// the character itself, and the character after it. The neighbours may lie outside of `range`.
pub fn with_neighbours(
    line: &str,
    range: Range<usize>,
) -> impl Iterator<Item = (usize, Option<char>, char, Option<char>)> {
    let mut before = slice(line, 0..range.start).chars().next_back();
    let mut rest = slice(line, range.start..line.len())
        .char_indices()
        .peekable();
    std::iter::from_fn(move || {
        let (offset, c) = rest.next_if(|(offset, _)| range.start + offset < range.end)?;
        let after = rest.peek().map(|(_, after)| *after);
        Some((range.start + offset, before.replace(c), c, after))
    })
}
