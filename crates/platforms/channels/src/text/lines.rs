//! Writes a document for platforms whose markup is characters in the text.
//!
//! Decision: marks never cross a line. Every line ends what is open and the next begins it anew,
//! because some platforms want that and the others do not mind, and because then a quote or a
//! heading is a prefix of lines. What a character means depends on its neighbours, so a dialect is
//! asked with the whole line at hand ([`Line`]).

use std::ops::Range;

use nanobot_channel::Measure;

use super::document::{Document, Mark, Span};
use super::slice::slice;

/// Stands between characters that would mean something together; nobody sees it.
pub(super) const SPACER: char = '\u{200B}';

/// What a dialect writes.
pub(super) trait Markup {
    /// What stands before and behind a stretch of a line with this mark. `None` where the mark
    /// cannot be shown; the text is written as if it had none.
    fn around(&self, mark: &Mark, stretch: &Stretch<'_>) -> Option<(String, String)>;

    /// What stands before each line of a heading; `None` where headings are bold text.
    fn heading(&self, level: u8) -> Option<&'static str>;

    /// What stands before and behind the lines of a block of code.
    fn fence(&self, info: &str) -> (String, String);

    /// Writes a piece of a line so that nothing in it is taken for markup.
    fn text(&self, line: &Line<'_>, range: Range<usize>, written: &mut String);

    /// Writes code, an address, a reference or the marker of an item.
    fn exact(&self, mark: &Mark, text: &str, written: &mut String);

    /// The most that [`Markup::text`] or [`Markup::exact`] add to a character.
    fn letter_price(&self, c: char, in_pre: bool, measure: Measure) -> usize;

    /// The most that a mark adds to a line of `text`; a block of code, to all of it.
    fn mark_price(&self, mark: &Mark, text: &str, measure: Measure) -> usize;
}

/// A line of text.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// All of it, without the line end.
    pub(super) text: &'a str,
    /// Where its first character is that is not white space.
    pub(super) first: usize,
    /// Whether something in it is marked.
    pub(super) marked: bool,
    /// The ASCII punctuation that it holds more than once.
    pub(super) repeated: String,
}

impl<'a> Line<'a> {
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

/// A marked stretch of a line, and what is around it.
#[derive(Debug)]
pub(super) struct Stretch<'a> {
    /// What is marked.
    pub(super) text: &'a str,
    /// The character before, as it is written.
    pub(super) before: Option<char>,
    /// The character behind, unless another mark ends at the same place.
    pub(super) behind: Option<char>,
    /// All of the line that is behind, unless another mark ends at the same place.
    pub(super) rest: &'a str,
    /// Whether another mark ends at the same place.
    pub(super) ends_another: bool,
    /// What in it is exact, and so cannot be escaped.
    pub(super) exact: String,
}

/// Renders a document.
pub(super) fn render(document: &Document, markup: &dyn Markup) -> String {
    let inline: Vec<&Span> = document
        .spans
        .iter()
        .filter(|span| !span.mark.is_pre())
        .collect();
    let mut writer = Writer {
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

/// Where writing stands.
struct Writer<'a> {
    text: &'a str,
    markup: &'a dyn Markup,
    /// The marks that are still to come.
    spans: &'a [&'a Span],
    /// The marks that reach into the line, outer first.
    open: Vec<&'a Span>,
    out: String,
    at: usize,
}

impl Writer<'_> {
    /// Writes lines up to `end`; the last may be none, before a block of code.
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

    /// Writes a block of code, on lines of its own.
    fn code(&mut self, range: &Range<usize>, info: &str) {
        let (before, behind) = self.markup.fence(info);
        self.begin_line();
        self.out.push_str(&before);
        self.markup.exact(
            &Mark::Pre {
                info: String::new(),
            },
            slice(self.text, range.clone()),
            &mut self.out,
        );
        self.out.push_str(&behind);
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
            self.out.push_str("> ");
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
        let line = Line::new(
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
        while let Some(((range, mark), behind)) = marks.split_first() {
            let within = behind
                .iter()
                .take_while(|(inner, _)| inner.start < range.end);
            let exact = within
                .filter(|(_, mark)| is_exact(mark))
                .map(|(inner, _)| slice(line.text, inner.clone()));
            inline.mark(range.clone(), mark, exact.collect());
            marks = behind;
        }
        inline.end();
    }
}

/// Writes the marks of one line.
struct Inline<'a> {
    line: &'a Line<'a>,
    markup: &'a dyn Markup,
    /// What is open: where it ends, what it is, and what closes it.
    open: Vec<(usize, &'a Mark, String)>,
    out: &'a mut String,
    at: usize,
}

impl<'a> Inline<'a> {
    fn mark(&mut self, range: Range<usize>, mark: &'a Mark, exact: String) {
        self.close_until(range.start);
        // What is exact takes no marks inside, and the words of a link neither.
        if self
            .open
            .iter()
            .any(|(_, outer, _)| is_exact(outer) || matches!(outer, Mark::Link { .. }))
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
        let stretch = Stretch {
            text: slice(self.line.text, range.clone()),
            before: self.out.chars().next_back().filter(|c| *c != '\n'),
            behind: rest.chars().next(),
            rest,
            ends_another: also_ends,
            exact,
        };
        if let Some((before, behind)) = self.markup.around(mark, &stretch) {
            self.out.push_str(&before);
            self.open.push((range.end, mark, behind));
        }
    }

    fn close_until(&mut self, at: usize) {
        while let Some((end, ..)) = self.open.last()
            && *end <= at
        {
            self.write_until(*end);
            if let Some((_, _, behind)) = self.open.pop() {
                self.out.push_str(&behind);
            }
        }
    }

    fn write_until(&mut self, end: usize) {
        let range = self.at..end;
        match self.open.last() {
            Some((_, mark, _)) if is_exact(mark) => {
                self.markup
                    .exact(mark, slice(self.line.text, range), self.out);
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

/// Whether a mark's text means nothing but itself.
fn is_exact(mark: &Mark) -> bool {
    matches!(
        mark,
        Mark::Code | Mark::Address | Mark::Reference | Mark::Item
    )
}

/// The part of `range` that is not blank at an end.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let is_blank = |c: char| c.is_whitespace() || c == SPACER;
    let stretch = slice(text, range.clone());
    let start = range.start + stretch.len() - stretch.trim_start_matches(is_blank).len();
    start..start + stretch.trim_matches(is_blank).len()
}

/// The longest run of back quotes in `text`.
pub(super) fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default()
}

/// Writes code for between two fences: three back quotes in it must not end it.
pub(super) fn write_fenced(
    text: &str,
    mut write: impl FnMut(char, &mut String),
    written: &mut String,
) {
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        if run == 3 {
            written.push(SPACER);
            run = 1;
        }
        write(c, written);
    }
}

/// The characters of a piece of a line, each with those beside it.
pub(super) fn with_neighbours(
    line: &str,
    range: Range<usize>,
) -> impl Iterator<Item = (usize, Option<char>, char, Option<char>)> {
    let mut before = slice(line, 0..range.start).chars().next_back();
    let mut rest = slice(line, range.start..line.len())
        .char_indices()
        .peekable();
    std::iter::from_fn(move || {
        let (offset, c) = rest.next_if(|(offset, _)| range.start + offset < range.end)?;
        let behind = rest.peek().map(|(_, behind)| *behind);
        Some((range.start + offset, before.replace(c), c, behind))
    })
}
