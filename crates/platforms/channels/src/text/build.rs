//! Builds a [`Document`] from the events of the Markdown parser.
//!
//! What has no counterpart in flat text is written with characters: bullets, numbers, check boxes,
//! rules. Raw HTML is shown as it stands, because nobody can know what it was meant to do.

use std::cmp::Reverse;
use std::mem::discriminant;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::address;
use super::document::{Document, Links, Mark, Span};
use super::prepare::{prepare, settle};
use super::slice::slice;
use super::table::Table;

/// The furthest that text is indented, in columns: lists in lists may go on for ever.
const DEEPEST_INDENT: usize = 24;
/// The widest table that is shown as one, in columns of monospace text.
const WIDEST_TABLE: usize = 80;
/// The longest name of a language that stands at a block of code, in bytes.
const LONGEST_LANGUAGE: usize = 32;

/// How far the next text is from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    /// It goes on.
    None,
    /// A new line.
    Line,
    /// An empty line between.
    Blank,
}

/// A list that is open.
struct List {
    /// The number of the next item, in a numbered list.
    next: Option<u64>,
    /// How far its items are indented, in columns.
    indent: usize,
}

/// The state of building.
pub(super) struct Builder {
    links: Links,
    document: Document,
    gap: Gap,
    /// The marks that are open, with where they begin; `None` for one that says nothing new.
    open: Vec<(usize, Option<Mark>)>,
    lists: Vec<List>,
    indent: usize,
    quotes: usize,
    after_heading: bool,
    verbatim: bool,
    table: Option<Table>,
}

impl Builder {
    /// An empty document.
    pub(super) fn new(links: Links) -> Self {
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

    /// Reads all of `markdown`.
    pub(super) fn read(mut self, markdown: &str) -> Document {
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        for event in Parser::new_ext(&prepare(markdown), options) {
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
            Event::Html(html) | Event::InlineHtml(html) if is_line_break(&html) => {
                self.line_break();
            }
            Event::Html(html) | Event::InlineHtml(html) => self.write(&html),
            Event::SoftBreak | Event::HardBreak => self.line_break(),
            Event::Rule => {
                self.separate(Gap::Blank);
                self.write("———");
                self.separate(Gap::Blank);
            }
            Event::TaskListMarker(done) => self.write(if done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.write(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.separate(Gap::Blank);
                self.begin(Mark::Heading { level: level as u8 });
            }
            Tag::BlockQuote(_) => {
                self.separate(Gap::Blank);
                self.quotes += 1;
                // Platforms do not nest quotes: the outermost stands for all of them.
                if self.quotes == 1 {
                    self.begin(Mark::Quote);
                }
            }
            Tag::CodeBlock(kind) => {
                self.separate(Gap::Blank);
                self.begin(Mark::Pre {
                    info: language(&kind),
                });
                self.verbatim = true;
            }
            Tag::List(next) => {
                self.separate(if self.lists.is_empty() {
                    Gap::Blank
                } else {
                    Gap::Line
                });
                self.lists.push(List {
                    next,
                    indent: self.indent,
                });
            }
            Tag::Item => self.item(),
            Tag::Table(alignments) => {
                self.separate(Gap::Blank);
                self.table = Some(Table::new(alignments.into_iter().map(is_right).collect()));
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
            Tag::Emphasis => self.begin(Mark::Italic),
            Tag::Strong => self.begin(Mark::Bold),
            Tag::Strikethrough => self.begin(Mark::Strike),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.begin(Mark::Link {
                    url: settle(&dest_url).into_owned(),
                });
            }
            _ => self.separate(Gap::Blank),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.finish();
                self.separate(Gap::Blank);
                self.after_heading = true;
            }
            TagEnd::BlockQuote(_) => {
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
            TagEnd::List(_) => {
                if let Some(list) = self.lists.pop() {
                    self.indent = list.indent;
                }
                self.separate(if self.lists.is_empty() {
                    Gap::Blank
                } else {
                    Gap::Line
                });
            }
            TagEnd::Item => {
                self.indent = self.lists.last().map_or(0, |list| list.indent);
                self.separate(Gap::Line);
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead | TagEnd::TableRow | TagEnd::TableCell => {}
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.finish(),
            TagEnd::Link | TagEnd::Image => self.finish_link(),
            _ => self.separate(Gap::Blank),
        }
    }

    /// Begins a list item: its marker, and room below the marker for what follows.
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

    /// Makes the next text stand at least this far from the last. Directly behind a list marker
    /// nothing is separated, so that the first paragraph of an item stands beside it.
    fn separate(&mut self, gap: Gap) {
        let behind_marker = self.document.text.ends_with("• ")
            || (self.document.text.ends_with(". ") && self.open_item_is_empty());
        if !behind_marker {
            self.gap = self.gap.max(gap);
        }
    }

    /// Whether the last line holds nothing but the number of an item.
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

    /// Writes the separation that is due.
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
        let text = &*settle(text);
        if let Some(table) = &mut self.table {
            table.write(text);
            return;
        }
        self.bridge();
        self.place_open_marks();
        self.document.text.push_str(text);
    }

    /// Opens a mark at the next text that is written. What is bold already gets no bolder.
    fn begin(&mut self, mark: Mark) {
        let kind = |mark: &Mark| match mark {
            Mark::Heading { .. } => discriminant(&Mark::Bold),
            _ => discriminant(mark),
        };
        let says_more = self
            .open
            .iter()
            .filter_map(|(_, open)| open.as_ref())
            .all(|open| kind(open) != kind(&mark));
        self.open.push((usize::MAX, says_more.then_some(mark)));
    }

    /// Fixes where the marks that wait for text begin.
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

    /// Closes the innermost mark. A mark without text leaves nothing behind.
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

    /// Closes a link: where it cannot be followed as a mark, its address becomes text.
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
        if self.can_be_followed(&url) {
            self.document.spans.push(Span {
                range: start..self.document.text.len(),
                mark: Mark::Link { url },
            });
        } else if url.strip_prefix("mailto:") != Some(words.as_str()) {
            self.write(&format!(" ({url})"));
        }
    }

    /// Whether the platform makes such an address a link.
    fn can_be_followed(&self, url: &str) -> bool {
        let Links::Marked { schemes, longest } = self.links else {
            return false;
        };
        let begins = |scheme: &&str| {
            url.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        url.len() <= longest && schemes.iter().any(begins)
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
            self.document.tables.push((range, table));
        }
        self.separate(Gap::Blank);
    }

    /// A table that no screen is wide enough for: a line for each row, that names its columns.
    fn write_rows(&mut self, table: &Table) {
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

/// Whether a piece of HTML is the one that people write for a new line.
fn is_line_break(html: &str) -> bool {
    matches!(html.trim(), "<br>" | "<br/>" | "<br />")
}

/// The first word behind a fence.
fn language(kind: &CodeBlockKind<'_>) -> String {
    match kind {
        CodeBlockKind::Fenced(info) => {
            let word = info
                .split_whitespace()
                .next()
                .filter(|word| word.len() <= LONGEST_LANGUAGE);
            settle(word.unwrap_or_default()).into_owned()
        }
        CodeBlockKind::Indented => String::new(),
    }
}

/// Whether a column of a table keeps to the right.
fn is_right(alignment: Alignment) -> bool {
    alignment == Alignment::Right
}
