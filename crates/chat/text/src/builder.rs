//! Builds a [`Document`] from the events of the Markdown parser.
//!
//! Elements without a counterpart in flat text are written as characters: bullets, numbers, check
//! boxes, rules. Raw HTML is shown as it is, because its intent is unknown.

use std::cmp::Reverse;
use std::mem::discriminant;

use nanobot_markup::{
    Alignment, Document, Event, Mark, Span, Tag, TagEnd, slice, starts_with_scheme,
};

use crate::address;
use crate::parse::events;
use crate::preprocess::preprocess;
use crate::table::TableBuilder;

/// Maximum indentation, in columns: nested lists have no limit.
const DEEPEST_INDENT: usize = 24;
/// Maximum width of an aligned table, in columns of monospace text.
const WIDEST_TABLE: usize = 80;
/// Maximum length of a code block's language name, in bytes; a longer one is dropped.
const LONGEST_LANGUAGE: usize = 32;

/// The addresses that become links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Schemes of addresses that the platform links, such as `https://`.
    pub schemes: &'static [&'static str],
    /// Maximum length of an address that becomes a link, in bytes.
    pub longest: usize,
}

impl Links {
    /// No links: every address is written into the text after the words of its link.
    pub const SPELLED: Self = Self {
        schemes: &[],
        longest: 0,
    };

    /// Returns `true` if `url` becomes a link.
    fn accept(self, url: &str) -> bool {
        url.len() <= self.longest && starts_with_scheme(url, self.schemes)
    }
}

/// Parses Markdown into a document: CommonMark with tables, task lists and strikethrough.
#[must_use]
pub fn parse(markdown: &str, links: Links) -> Document {
    Builder::new(links).read(events(&preprocess(markdown)))
}

/// The distance of the next text from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    /// On the same line.
    None,
    /// On a new line.
    Line,
    /// After an empty line.
    Blank,
}

/// A list that is open.
struct List {
    /// The number of the next item, in a numbered list.
    next: Option<u64>,
    /// The indentation of its items, in columns.
    indent: usize,
}

/// The state of building.
struct Builder {
    links: Links,
    document: Document,
    gap: Gap,
    /// The open marks with their beginnings; `None` for a mark that adds nothing to the outer ones.
    open: Vec<(usize, Option<Mark>)>,
    lists: Vec<List>,
    indent: usize,
    quotes: usize,
    after_heading: bool,
    verbatim: bool,
    table: Option<TableBuilder>,
}

impl Builder {
    fn new(links: Links) -> Self {
        Self {
            links,
            document: Document::default(),
            gap: Gap::None,
            open: Vec::new(),
            lists: Vec::new(),
            indent: 0,
            quotes: 0,
            after_heading: false,
            verbatim: false,
            table: None,
        }
    }

    fn read<'a>(mut self, events: impl Iterator<Item = Event<'a>>) -> Document {
        for event in events {
            self.event(event);
        }
        // Marks are closed inner first; renderers want the outer first.
        self.document.spans.reverse();
        self.document
            .spans
            .sort_by_key(|span| (span.range.start, Reverse(span.range.end)));
        address::mark(&mut self.document);
        self.document
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.write(&text),
            Event::Code(code) => {
                self.begin(Mark::Code);
                self.write(&code);
                self.finish();
            }
            Event::LineBreak => self.line_break(),
            Event::Rule => {
                self.separate(Gap::Blank);
                self.write("———");
                self.separate(Gap::Blank);
            }
            Event::TaskMarker { done } => self.write(if done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::Html => self.separate(Gap::Blank),
            Tag::Heading { level } => {
                self.separate(Gap::Blank);
                self.begin(Mark::Heading { level });
            }
            Tag::Quote => {
                self.separate(Gap::Blank);
                self.quotes += 1;
                // Platforms do not nest quotes: only the outermost is marked.
                if self.quotes == 1 {
                    self.begin(Mark::Quote);
                }
            }
            Tag::CodeBlock { language } => {
                self.separate(Gap::Blank);
                let info = match language {
                    long if long.len() > LONGEST_LANGUAGE => String::new(),
                    language => language.into_owned(),
                };
                self.begin(Mark::Pre { info });
                self.verbatim = true;
            }
            Tag::List { first } => {
                self.separate(self.list_gap());
                self.lists.push(List {
                    next: first,
                    indent: self.indent,
                });
            }
            Tag::Item => self.item(),
            Tag::Table { alignments } => {
                self.separate(Gap::Blank);
                let right = alignments
                    .into_iter()
                    .map(|alignment| alignment == Alignment::Right);
                self.table = Some(TableBuilder::new(right.collect()));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.start_row();
                }
            }
            Tag::TableCell => {
                if let Some(table) = &mut self.table {
                    table.start_cell();
                }
            }
            Tag::Italic => self.begin(Mark::Italic),
            Tag::Bold => self.begin(Mark::Bold),
            Tag::Strike => self.begin(Mark::Strike),
            Tag::Link { url } => self.begin(Mark::Link {
                url: url.into_owned(),
            }),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Html => self.separate(Gap::Blank),
            TagEnd::Heading => {
                self.finish();
                self.separate(Gap::Blank);
                self.after_heading = true;
            }
            TagEnd::Quote => {
                self.quotes = self.quotes.saturating_sub(1);
                if self.quotes == 0 {
                    self.finish();
                }
                self.separate(Gap::Blank);
            }
            TagEnd::CodeBlock => {
                self.verbatim = false;
                self.finish();
                self.separate(Gap::Blank);
            }
            TagEnd::List => {
                if let Some(list) = self.lists.pop() {
                    self.indent = list.indent;
                }
                self.separate(self.list_gap());
            }
            TagEnd::Item => {
                self.indent = self.lists.last().map_or(0, |list| list.indent);
                self.separate(Gap::Line);
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead | TagEnd::TableRow | TagEnd::TableCell => {}
            TagEnd::Italic | TagEnd::Bold | TagEnd::Strike => self.finish(),
            TagEnd::Link => self.finish_link(),
        }
    }

    /// Returns the gap before and after a list.
    fn list_gap(&self) -> Gap {
        if self.lists.is_empty() {
            Gap::Blank
        } else {
            Gap::Line
        }
    }

    /// Begins a list item: writes its marker and indents what follows.
    fn item(&mut self) {
        self.separate(Gap::Line);
        let Some(list) = self.lists.last_mut() else {
            return;
        };
        let marker = match &mut list.next {
            Some(number) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            None => "• ".to_owned(),
        };
        self.indent = list.indent;
        self.write(&marker);
        let end = self.document.text.len();
        self.document.spans.push(Span {
            range: end - marker.len()..end - 1,
            mark: Mark::Item,
        });
        self.indent = (self.indent + marker.chars().count()).min(DEEPEST_INDENT);
        self.gap = Gap::None;
    }

    /// Requests a gap before the next text, if none as large is requested. There is none directly
    /// after a list marker, so that the first paragraph of an item begins on the same line.
    fn separate(&mut self, gap: Gap) {
        let after_marker = self.document.text.ends_with("• ")
            || (self.document.text.ends_with(". ") && self.open_item_is_empty());
        if !after_marker {
            self.gap = self.gap.max(gap);
        }
    }

    /// Returns `true` if the last line has nothing but the number of an item.
    fn open_item_is_empty(&self) -> bool {
        let line = self.document.text.rsplit('\n').next().unwrap_or_default();
        !self.lists.is_empty()
            && line
                .trim()
                .trim_end_matches('.')
                .chars()
                .all(|c| c.is_ascii_digit())
    }

    fn line_break(&mut self) {
        match &mut self.table {
            Some(table) => table.write(" "),
            None => self.separate(Gap::Line),
        }
    }

    /// Writes the requested gap.
    fn bridge(&mut self) {
        let gap = std::mem::replace(&mut self.gap, Gap::None);
        let after_heading = std::mem::take(&mut self.after_heading);
        if self.document.text.is_empty() || gap == Gap::None {
            return;
        }
        let kept = self.document.text.trim_end_matches('\n').len();
        self.document.text.truncate(kept);
        self.document
            .text
            .push_str(if gap == Gap::Blank { "\n\n" } else { "\n" });
        if gap == Gap::Blank && !after_heading {
            self.document.blocks.push(self.document.text.len());
        }
        if !self.verbatim {
            self.document
                .text
                .extend(std::iter::repeat_n(' ', self.indent));
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(table) = &mut self.table {
            table.write(text);
            return;
        }
        self.bridge();
        self.place_open_marks();
        self.document.text.push_str(text);
    }

    /// Opens a mark at the next text that is written. A mark of the same kind as an outer one is
    /// dropped.
    fn begin(&mut self, mark: Mark) {
        let kind = |mark: &Mark| match mark {
            Mark::Heading { .. } => discriminant(&Mark::Bold),
            _ => discriminant(mark),
        };
        let is_new = self
            .open
            .iter()
            .filter_map(|(_, open)| open.as_ref())
            .all(|open| kind(open) != kind(&mark));
        self.open.push((usize::MAX, is_new.then_some(mark)));
    }

    /// Sets the beginning of the marks that were opened since the last text.
    fn place_open_marks(&mut self) {
        let here = self.document.text.len();
        for (start, _) in self
            .open
            .iter_mut()
            .rev()
            .take_while(|(start, _)| *start == usize::MAX)
        {
            *start = here;
        }
    }

    /// Closes the innermost mark. A mark without text is dropped.
    fn finish(&mut self) {
        let Some((start, mark)) = self.open.pop() else {
            return;
        };
        let end = self.document.text.trim_end_matches('\n').len();
        if let Some(mark) = mark.filter(|_| start < end) {
            self.document.spans.push(Span {
                range: start..end,
                mark,
            });
        }
    }

    /// Closes a link. If the platform cannot link its address, the address becomes text.
    fn finish_link(&mut self) {
        let Some((start, Some(Mark::Link { url }))) = self.open.pop() else {
            return;
        };
        let written = self.document.text.get(start..).map(str::to_owned);
        let Some(words) = written.filter(|words| !words.is_empty()) else {
            let in_table = self
                .table
                .as_ref()
                .is_some_and(|table| !table.cell().is_empty());
            self.write(&if in_table { format!(" ({url})") } else { url });
            return;
        };
        if words == url || url.is_empty() {
            return;
        }
        if self.links.accept(&url) {
            self.document.spans.push(Span {
                range: start..self.document.text.len(),
                mark: Mark::Link { url },
            });
        } else if url.strip_prefix("mailto:") != Some(words.as_str()) {
            self.write(&format!(" ({url})"));
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        let before = self.document.text.trim_end_matches('\n').len();
        if table.width() > WIDEST_TABLE {
            self.write_rows(&table);
        } else {
            self.begin(Mark::Pre {
                info: String::new(),
            });
            self.verbatim = true;
            self.write(&table.render());
            self.verbatim = false;
            self.finish();
        }
        let written = slice(&self.document.text, before..self.document.text.len());
        let start = before + (written.len() - written.trim_start_matches('\n').len());
        let range = start..before + written.trim_end_matches('\n').len();
        if !range.is_empty() {
            self.document.tables.push((range, table.finish()));
        }
        self.separate(Gap::Blank);
    }

    /// Writes a table that is too wide to be aligned: a line for each row, with the names of its
    /// columns.
    fn write_rows(&mut self, table: &TableBuilder) {
        for row in table.named_rows() {
            self.separate(Gap::Line);
            for (number, (name, cell)) in row.into_iter().enumerate() {
                self.write(if number == 0 { "" } else { " · " });
                if let Some(name) = name {
                    self.begin(Mark::Bold);
                    self.write(name);
                    self.finish();
                    self.write(": ");
                }
                self.write(cell);
            }
        }
    }
}
