//! Renders Markdown for a terminal: ANSI styles, bullets, aligned tables.
//!
//! Decision: the line breaks of the text are kept; a line that is wider than the layout is wrapped
//! and keeps the indent of its block. The text cannot control the terminal: control characters are
//! removed before styling. Quotes and lists deeper than 16 levels, or than half the width, are
//! shown at the deepest one, and a style is either on or off, however often it begins: otherwise
//! the output would grow with lines times depth.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::style::{BOLD, CYAN, DIM, ITALIC, Ink, Layout, PLAIN, STRIKE, UNDERLINE, painted};
use super::table::TerminalTable;
use super::text::{RULE, StyledText};
use super::wrap;
use crate::output::sanitize;

/// Returns the extensions that chat models use.
pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// `true` if a line may begin more nested blocks than any real text does. The parser's work is that
/// depth times the number of lines.
pub(super) fn is_too_deep(markdown: &str) -> bool {
    let is_marker = |c: &char| matches!(c, '>' | '-' | '*' | '+' | '.' | ')');
    let begins = |c: &char| is_marker(c) || c.is_ascii_digit() || matches!(c, ' ' | '\t');
    markdown
        .lines()
        .any(|line| line.chars().take_while(begins).filter(is_marker).count() > MARKERS)
}

/// Renders Markdown into whole lines. Text that is nested too deeply is shown as it was written.
pub(super) fn render(markdown: &str, layout: Layout) -> String {
    let mut renderer = Renderer::new(layout);
    if is_too_deep(markdown) {
        for line in sanitize(markdown).lines() {
            renderer.emit(&StyledText::of(line, PLAIN));
        }
        return renderer.out;
    }
    for event in Parser::new_ext(markdown, options()) {
        renderer.event(event);
    }
    renderer.end_line();
    renderer.out
}

/// Maximum level of quotes and lists that is shown.
const DEEPEST: usize = 16;

/// Maximum number of markers of quotes and lists at the beginning of a line.
const MARKERS: usize = 128;

/// Columns that stand for a tab in code.
pub(crate) const TAB: &str = "    ";

/// Text before each line of a block.
struct Prefix {
    /// For the next line only: a list marker, as wide as the text for the other lines.
    once: Option<String>,
    /// For the lines after it.
    always: String,
    /// Number of columns of either.
    width: usize,
}

struct Renderer {
    layout: Layout,
    out: String,
    line: StyledText,
    prefixes: Vec<Prefix>,
    /// Number of enclosing blocks whose prefixes are not shown.
    too_deep: usize,
    /// The next number of each enclosing list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// The style of text.
    ink: Ink,
    /// The styles to return to.
    inks: Vec<Ink>,
    links: Vec<Link>,
    table: Option<TerminalTable>,
    in_code: bool,
    /// Set while nothing was shown since the last gap or the beginning of an enclosing block.
    is_separated: bool,
}

/// A link or an image in progress.
struct Link {
    target: String,
    text: String,
}

impl Renderer {
    fn new(layout: Layout) -> Self {
        Self {
            layout,
            out: String::new(),
            line: StyledText::default(),
            prefixes: Vec::new(),
            too_deep: 0,
            lists: Vec::new(),
            ink: PLAIN,
            inks: Vec::new(),
            links: Vec::new(),
            table: None,
            in_code: false,
            is_separated: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => {
                self.push_style(CYAN);
                self.text(&code);
                self.pop_style();
            }
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::SoftBreak | Event::HardBreak if self.table.is_none() => self.end_line(),
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            Event::Rule => {
                self.gap();
                self.line.push(RULE, DIM);
                self.end_line();
            }
            Event::TaskListMarker(done) => self.text(if done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                self.push_style(BOLD);
                if level == HeadingLevel::H1 {
                    self.push_style(UNDERLINE);
                }
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.push_prefix(Prefix {
                    once: None,
                    always: painted("│ ", DIM, self.layout.palette),
                    width: 2,
                });
            }
            Tag::CodeBlock(kind) => self.start_code(&kind),
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.gap();
                } else {
                    self.end_line();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.gap();
                self.table = Some(TerminalTable::new(alignments));
            }
            Tag::Emphasis => self.push_style(ITALIC),
            Tag::Strong => self.push_style(BOLD),
            Tag::Strikethrough => self.push_style(STRIKE),
            Tag::Link { dest_url, .. } => self.start_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.start_link(&dest_url);
                self.text("🖼 ");
            }
            Tag::TableHead
            | Tag::TableRow
            | Tag::TableCell
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_line(),
            TagEnd::Heading(level) => {
                self.pop_style();
                if level == HeadingLevel::H1 {
                    self.pop_style();
                }
                self.end_line();
            }
            TagEnd::BlockQuote(_) => {
                self.end_line();
                self.pop_prefix();
            }
            TagEnd::CodeBlock => {
                self.end_line();
                self.in_code = false;
                self.pop_prefix();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.end_line();
                self.pop_prefix();
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(table) = &mut self.table {
                    table.end_cell(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.pop_style(),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn start_code(&mut self, kind: &CodeBlockKind<'_>) {
        self.gap();
        self.end_line();
        // Not indented, so that it is no line of the code.
        if let CodeBlockKind::Fenced(language) = kind
            && !language.is_empty()
        {
            self.line.push(&format!("{}:", sanitize(language)), DIM);
            self.end_line();
        }
        self.in_code = true;
        self.push_prefix(Prefix {
            once: None,
            always: "    ".to_owned(),
            width: 4,
        });
    }

    fn start_item(&mut self) {
        self.end_line();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => "• ".to_owned(),
        };
        let width = marker.chars().count();
        self.push_prefix(Prefix {
            once: Some(marker),
            always: " ".repeat(width),
            width,
        });
    }

    fn start_link(&mut self, target: &str) {
        self.push_style(UNDERLINE);
        self.links.push(Link {
            target: sanitize(target),
            text: String::new(),
        });
    }

    fn end_link(&mut self) {
        self.pop_style();
        let Some(link) = self.links.pop() else { return };
        let is_told = link.target.is_empty()
            || link.target == link.text
            || link.target.strip_prefix("mailto:") == Some(link.text.as_str());
        if !is_told {
            self.push_style(DIM);
            self.text(&format!(" ({})", link.target));
            self.pop_style();
        }
    }

    fn end_table(&mut self) {
        let room = self.room();
        let lines = self
            .table
            .take()
            .map(|table| table.lines(room))
            .unwrap_or_default();
        for line in lines {
            self.line = line;
            self.end_line();
        }
    }

    /// Adds text, which may have newlines in code and HTML.
    fn text(&mut self, text: &str) {
        let mut text = sanitize(text);
        if self.layout.width.is_some() && text.contains('\t') {
            text = text.replace('\t', if self.in_code { TAB } else { " " });
        }
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(&text);
        }
        let mut lines = text.split('\n');
        self.line.push(lines.next().unwrap_or_default(), self.ink);
        for line in lines {
            if self.in_code && self.line.is_empty() {
                self.emit(&StyledText::default());
            }
            self.end_line();
            self.line.push(line, self.ink);
        }
    }

    fn push_style(&mut self, ink: Ink) {
        self.inks.push(self.ink);
        self.ink = self.ink.with(ink);
    }

    fn pop_style(&mut self) {
        self.ink = self.inks.pop().unwrap_or_default();
    }

    fn push_prefix(&mut self, prefix: Prefix) {
        let is_too_wide = self
            .layout
            .width
            .is_some_and(|width| self.indent() + prefix.width > width / 2);
        if self.too_deep > 0 || self.prefixes.len() >= DEEPEST || is_too_wide {
            self.too_deep += 1;
        } else {
            self.prefixes.push(prefix);
        }
    }

    fn pop_prefix(&mut self) {
        match self.too_deep.checked_sub(1) {
            Some(less) => self.too_deep = less,
            None => drop(self.prefixes.pop()),
        }
    }

    /// Returns the number of columns of all prefixes.
    fn indent(&self) -> usize {
        self.prefixes.iter().map(|prefix| prefix.width).sum()
    }

    /// Returns the number of columns after the prefixes; `None` if lines are not wrapped.
    fn room(&self) -> Option<usize> {
        let width = self.layout.width?;
        Some(width.saturating_sub(self.indent()).max(1))
    }

    /// Ends the line, unless it is empty.
    fn end_line(&mut self) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.emit(&line);
        }
    }

    /// Writes a line, as several rows if it is too wide.
    fn emit(&mut self, line: &StyledText) {
        let text = line.as_str();
        let rows = match self.room() {
            Some(room) if self.in_code => wrap::by_columns(text, room),
            Some(room) => wrap::by_words(text, room),
            None => wrap::unbroken(text),
        };
        for row in rows {
            let start = self.out.len();
            for prefix in &mut self.prefixes {
                match prefix.once.take() {
                    Some(once) => self.out.push_str(&once),
                    None => self.out.push_str(&prefix.always),
                }
            }
            if row.is_empty() {
                let prefix = self.out.get(start..).unwrap_or_default();
                let length = start + prefix.trim_end().len();
                self.out.truncate(length);
            }
            line.paint(row, self.layout.palette, &mut self.out);
            self.out.push('\n');
        }
        self.is_separated = false;
    }

    /// Adds a blank line between blocks, but not inside a list.
    fn gap(&mut self) {
        self.end_line();
        if !self.out.is_empty() && self.lists.is_empty() && !self.is_separated {
            self.emit(&StyledText::default());
        }
        self.is_separated = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    fn layout(width: Option<usize>, palette: Palette) -> Layout {
        Layout { width, palette }
    }

    /// Renders Markdown with readable tags for the styles.
    fn shown(markdown: &str) -> String {
        let mut text = render(markdown, Layout::default());
        for (code, tag) in [
            ("\u{1b}[0m", "</>"),
            ("\u{1b}[1m", "<b>"),
            ("\u{1b}[2m", "<d>"),
            ("\u{1b}[3m", "<i>"),
            ("\u{1b}[4m", "<u>"),
            ("\u{1b}[9m", "<s>"),
            ("\u{1b}[36m", "<c>"),
        ] {
            text = text.replace(code, tag);
        }
        text
    }

    /// Renders Markdown without styles.
    fn plain(markdown: &str, width: usize) -> String {
        render(markdown, layout(Some(width), Palette::Plain))
    }

    #[test]
    fn blocks_and_styles_are_shown() {
        for (markdown, expected) in [
            ("plain\ntext", "plain\ntext\n"),
            ("# Title\n\ntext", "<b><u>Title</>\n\ntext\n"),
            ("a **b *c* d** `e`", "a <b>b <i>c</><b> d</> <c>e</>\n"),
            ("**two\nlines**", "<b>two</>\n<b>lines</>\n"),
            (
                "- one\n- two\n  more\n  1. deep\n",
                "• one\n• two\n  more\n  1. deep\n",
            ),
            ("3. c\n\n4. d\n", "3. c\n4. d\n"),
            ("- [x] done\n- [ ] open\n", "• ☑ done\n• ☐ open\n"),
            ("> quoted\n> text", "<d>│ </>quoted\n<d>│ </>text\n"),
            ("a\n\n> b\n>\n> c", "a\n\n<d>│ </>b\n<d>│ </>\n<d>│ </>c\n"),
            ("a\n\n---\n\nb", "a\n\n<d>────────</>\n\nb\n"),
            (
                "```rust\nfn a() {\n\n}\n```\n",
                "<d>rust:</>\n    fn a() {\n\n    }\n",
            ),
            (
                "[text](http://x/) <http://y/>",
                "<u>text</><d> (http://x/)</> <u>http://y/</>\n",
            ),
            ("<b>raw</b>", "<b>raw</b>\n"),
            ("a\u{1b}[31mb", "a[31mb\n"),
        ] {
            assert_eq!(shown(markdown), expected, "{markdown:?}");
        }
    }

    #[test]
    fn nesting_is_limited_and_repeated_styles_merge() {
        let quotes = format!("{}text\n\nafter", "> ".repeat(40));
        assert_eq!(
            shown(&quotes),
            format!("{}text\n\nafter\n", "<d>│ </>".repeat(DEEPEST))
        );
        assert_eq!(shown("**a __b__ c** d"), "<b>a b c</> d\n");
        let wide = format!(
            "{}\n{}\n{}",
            "|a".repeat(2000),
            "|-".repeat(2000),
            "|\n".repeat(2000)
        );
        assert!(render(&wide, Layout::default()).len() < 3_000_000);
    }

    #[test]
    fn tables_are_aligned_by_width() {
        let table = "| name | n |\n|---|---|\n| 你好 | 1 |\n| `a` | 22 |\n";
        assert_eq!(
            shown(table),
            "<b>name</> │ <b>n</>\n─────┼───\n你好 │ 1\n<c>a</>    │ 22\n"
        );
    }

    #[test]
    fn continuation_rows_keep_the_indent() {
        for (markdown, expected) in [
            ("one two three", "one two\nthree\n"),
            ("- one two three", "• one two\n  three\n"),
            ("10. one two three", "10. one\n    two\n    three\n"),
            ("> one two three", "│ one two\n│ three\n"),
            (
                "- a\n  - one two three",
                "• a\n  • one\n    two\n    three\n",
            ),
            ("```\nabcdef ghi\n```", "    abcdef\n     ghi\n"),
            ("```\n\tabc\n```", "        ab\n    c\n"),
            ("你好你好你好", "你好你好你\n好\n"),
        ] {
            assert_eq!(plain(markdown, 10), expected, "{markdown:?}");
        }
        assert_eq!(plain("> > > > a b", 6), "│ a b\n");
    }

    #[test]
    fn styles_continue_on_the_next_row() {
        let text = render("**one two** x", layout(Some(5), Palette::Colours));
        assert_eq!(text, "\u{1b}[1mone\u{1b}[0m\n\u{1b}[1mtwo\u{1b}[0m x\n");
    }

    #[test]
    fn palettes_change_styles_only() {
        let markdown = "# T\n\n- **b** `c`\n\n> q\n";
        assert_eq!(
            render(markdown, layout(None, Palette::Attributes)),
            "\u{1b}[1m\u{1b}[4mT\u{1b}[0m\n\n• \u{1b}[1mb\u{1b}[0m c\n\n\u{1b}[2m│ \u{1b}[0mq\n"
        );
        assert_eq!(
            render(markdown, layout(None, Palette::Plain)),
            "T\n\n• b c\n\n│ q\n"
        );
    }
}
