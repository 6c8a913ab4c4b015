//! Renders Markdown for a terminal: ANSI styles, bullets, aligned tables.
//!
//! Decision: lines are not wrapped here; terminals do that, and a copied line stays one line. The
//! text cannot control the terminal: control characters are removed before styling. Quotes and
//! lists deeper than 16 levels are shown at the deepest one, and a style is either on or off,
//! however often it begins: otherwise the output would grow with lines times depth.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::style::{BOLD, CYAN, DIM, ITALIC, RESET, STRIKE, UNDERLINE, styled};
use super::table::TerminalTable;
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
pub(super) fn render(markdown: &str) -> String {
    if is_too_deep(markdown) {
        let text = sanitize(markdown);
        return if text.ends_with('\n') {
            text
        } else {
            text + "\n"
        };
    }
    let mut renderer = Renderer::default();
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

/// Text before each line of a block.
struct Prefix {
    /// For the next line only: a list marker.
    once: Option<String>,
    /// For the lines after it.
    always: String,
}

#[derive(Default)]
struct Renderer {
    out: String,
    line: String,
    prefixes: Vec<Prefix>,
    /// Number of enclosing blocks whose prefixes are not shown.
    too_deep: usize,
    /// The next number of each enclosing list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// Styles in the order in which they began.
    styles: Vec<&'static str>,
    /// Styles that are on, each once, with the number of times it began.
    on: Vec<(&'static str, usize)>,
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
                self.line.push_str(&styled(DIM, "────────"));
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
                    always: styled(DIM, "│ "),
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
            Tag::Table(_) => {
                self.gap();
                self.table = Some(TerminalTable::default());
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
        self.in_code = true;
        self.push_prefix(Prefix {
            once: None,
            always: "    ".to_owned(),
        });
        if let CodeBlockKind::Fenced(language) = kind
            && !language.is_empty()
        {
            self.line.push_str(&styled(DIM, &sanitize(language)));
            self.end_line();
        }
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
        let always = " ".repeat(marker.chars().count());
        self.push_prefix(Prefix {
            once: Some(marker),
            always,
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
        let is_told = link.target == link.text
            || link.target.strip_prefix("mailto:") == Some(link.text.as_str());
        if !is_told {
            self.push_style(DIM);
            self.text(&format!(" ({})", link.target));
            self.pop_style();
        }
    }

    fn end_table(&mut self) {
        let lines = self
            .table
            .take()
            .map(|table| table.lines())
            .unwrap_or_default();
        for line in lines {
            self.line = line;
            self.end_line();
        }
    }

    /// Adds text, which may have newlines in code and HTML.
    fn text(&mut self, text: &str) {
        let text = sanitize(text);
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(&text);
        }
        let mut lines = text.split('\n');
        self.line.push_str(lines.next().unwrap_or_default());
        for line in lines {
            if self.in_code && self.line.is_empty() {
                self.emit("");
            }
            self.end_line();
            self.line.push_str(line);
        }
    }

    fn push_style(&mut self, style: &'static str) {
        self.styles.push(style);
        match self.on.iter_mut().find(|(on, _)| *on == style) {
            Some((_, count)) => *count += 1,
            None => {
                self.on.push((style, 1));
                self.line.push_str(style);
            }
        }
    }

    fn pop_style(&mut self) {
        let Some(style) = self.styles.pop() else {
            return;
        };
        self.on
            .iter_mut()
            .filter(|(on, _)| *on == style)
            .for_each(|(_, count)| *count -= 1);
        let before = self.on.len();
        self.on.retain(|(_, count)| *count > 0);
        if self.on.len() < before {
            self.line.push_str(RESET);
            self.begin_styles();
        }
    }

    fn begin_styles(&mut self) {
        self.line.extend(self.on.iter().map(|(style, _)| *style));
    }

    fn push_prefix(&mut self, prefix: Prefix) {
        if self.prefixes.len() < DEEPEST {
            self.prefixes.push(prefix);
        } else {
            self.too_deep += 1;
        }
    }

    fn pop_prefix(&mut self) {
        match self.too_deep.checked_sub(1) {
            Some(less) => self.too_deep = less,
            None => drop(self.prefixes.pop()),
        }
    }

    /// Ends the line, unless it is empty.
    fn end_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        if !self.styles.is_empty() {
            line.push_str(RESET);
            self.begin_styles();
        }
        self.emit(&line);
    }

    fn emit(&mut self, line: &str) {
        let prefix: String = self
            .prefixes
            .iter_mut()
            .map(|prefix| prefix.once.take().unwrap_or_else(|| prefix.always.clone()))
            .collect();
        self.out.push_str(if line.is_empty() {
            prefix.trim_end()
        } else {
            &prefix
        });
        self.out.push_str(line);
        self.out.push('\n');
        self.is_separated = false;
    }

    /// Adds a blank line between blocks, but not inside a list.
    fn gap(&mut self) {
        self.end_line();
        if !self.out.is_empty() && self.lists.is_empty() && !self.is_separated {
            self.emit("");
        }
        self.is_separated = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders Markdown with readable tags for the styles.
    fn shown(markdown: &str) -> String {
        let mut text = render(markdown);
        for (code, tag) in [
            (RESET, "</>"),
            (BOLD, "<b>"),
            (DIM, "<d>"),
            (ITALIC, "<i>"),
            (UNDERLINE, "<u>"),
            (STRIKE, "<s>"),
            (CYAN, "<c>"),
        ] {
            text = text.replace(code, tag);
        }
        text
    }

    #[test]
    fn blocks_and_styles_are_shown() {
        for (markdown, expected) in [
            ("plain\ntext", "plain\ntext\n"),
            ("# Title\n\ntext", "<b><u>Title</><b></>\n\ntext\n"),
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
                "    <d>rust</>\n    fn a() {\n\n    }\n",
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
        assert!(render(&wide).len() < 3_000_000);
    }

    #[test]
    fn tables_are_aligned_by_width() {
        let table = "| name | n |\n|---|---|\n| 你好 | 1 |\n| `a` | 22 |\n";
        assert_eq!(
            shown(table),
            "<b>name</> │ <b>n</>\n─────┼───\n你好 │ 1\n<c>a</>    │ 22\n"
        );
    }
}
