//! The two bodies of a mail: HTML that every reader shows, and its plain alternative.
//!
//! Decision: a mail is not cut, so the HTML is written straight from the parser's events: real
//! lists and tables, looks in `style` attributes because many readers drop style sheets. Only a
//! handful of tags and three kinds of address ever appear, images are links because readers do not
//! load them, and HTML in the source is shown as the text it is. Nothing is nested deeper than
//! [`DEEPEST`]: readers break off where nesting gets absurd.

use std::ops::Range;

use nanobot_channel::Measure;
use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::RenderedPart;
use super::document::{Document, Links, Mark};
use super::lines::{self, Line, Markup, Stretch};
use super::prepare::{prepare, settle};
use super::slice::slice;
use super::telegram::{attribute, escape};

/// The addresses that become links.
const SCHEMES: &[&str] = &["http://", "https://", "mailto:"];
/// How many lists, quotes and marks may stand in each other.
const DEEPEST: usize = 24;

const BODY: &str = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,'PingFang SC','Microsoft YaHei',sans-serif;font-size:15px;line-height:1.5";
const CODE: &str =
    "font-family:Menlo,Consolas,monospace;background:#f4f4f4;padding:1px 4px;border-radius:3px";
const PRE: &str = "font-family:Menlo,Consolas,monospace;background:#f4f4f4;padding:10px;border-radius:4px;white-space:pre-wrap";
const QUOTE: &str = "margin:0 0 0 4px;padding-left:10px;border-left:3px solid #ccc;color:#555";
const TABLE: &str = "border-collapse:collapse";
const CELL: &str = "border:1px solid #ccc;padding:4px 8px;text-align:";

/// Renders a mail, in one part.
pub(super) fn render(markdown: &str) -> Vec<RenderedPart> {
    let document = Document::parse(markdown, Links::Spelled);
    let plain = lines::render(&document, &PlainText).trim_end().to_owned();
    if plain.trim().is_empty() {
        return Vec::new();
    }
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer::default();
    for event in Parser::new_ext(&prepare(markdown), options) {
        writer.event(event);
    }
    vec![RenderedPart::of_text(
        format!("<div style=\"{BODY}\">\n{}</div>", writer.html),
        plain,
    )]
}

/// A tag that is open.
struct Open {
    /// What closes it; nothing where it was left out.
    closing: String,
    /// Its address has to be spelled behind its words.
    spelled: Option<String>,
    /// How much was written when its words began.
    words: usize,
}

/// Where writing stands.
#[derive(Default)]
struct Writer {
    html: String,
    open: Vec<Open>,
    alignments: Vec<Alignment>,
    column: usize,
    /// How many links and images are open.
    links: usize,
    in_head: bool,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Html(html) | Event::InlineHtml(html) if is_line_break(&html) => {
                self.html.push_str("<br>\n");
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                escape(&settle(&text), &mut self.html);
            }
            Event::Code(code) => {
                self.html.push_str(&format!("<code style=\"{CODE}\">"));
                escape(&settle(&code), &mut self.html);
                self.html.push_str("</code>");
            }
            // A chat's line ends are meant, other than those of a text file.
            Event::SoftBreak | Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            Event::TaskListMarker(done) => self.html.push_str(if done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                escape(&text, &mut self.html);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open_tag("<p>", "</p>\n"),
            Tag::Heading { level, .. } => {
                self.open_tag(&format!("<{level}>"), &format!("</{level}>\n"));
            }
            Tag::BlockQuote(_) => self.open_tag(
                &format!("<blockquote style=\"{QUOTE}\">\n"),
                "</blockquote>\n",
            ),
            Tag::CodeBlock(kind) => {
                let class = match &kind {
                    CodeBlockKind::Fenced(info) => info.split_whitespace().next(),
                    CodeBlockKind::Indented => None,
                };
                let class =
                    class.map(|info| format!(" class=\"language-{}\"", attribute(&settle(info))));
                let opening = format!("<pre style=\"{PRE}\"><code{}>", class.unwrap_or_default());
                self.open_tag(&opening, "</code></pre>\n");
            }
            Tag::List(None) => self.open_tag("<ul>\n", "</ul>\n"),
            Tag::List(Some(first)) => {
                self.open_tag(&format!("<ol start=\"{first}\">\n"), "</ol>\n");
            }
            Tag::Item => self.open_tag("<li>", "</li>\n"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                self.open_tag(&format!("<table style=\"{TABLE}\">\n"), "</table>\n");
            }
            Tag::TableHead | Tag::TableRow => {
                self.column = 0;
                self.in_head = matches!(tag, Tag::TableHead);
                self.open_tag("<tr>", "</tr>\n");
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.open_tag("<em>", "</em>"),
            Tag::Strong => self.open_tag("<strong>", "</strong>"),
            Tag::Strikethrough => self.open_tag("<s>", "</s>"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link(&settle(&dest_url));
            }
            _ => self.open_tag("", ""),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        if matches!(tag, TagEnd::Link | TagEnd::Image) {
            self.links = self.links.saturating_sub(1);
        }
        let Some(open) = self.open.pop() else { return };
        if let Some(url) = open.spelled {
            let words = slice(&self.html, open.words..self.html.len());
            let mut shown = String::new();
            escape(&url, &mut shown);
            match words {
                "" => self.html.push_str(&shown),
                words if words == shown => {}
                _ => self.html.push_str(&format!(" ({shown})")),
            }
        }
        self.html.push_str(&open.closing);
    }

    fn cell(&mut self) {
        let alignment = match self.alignments.get(self.column) {
            Some(Alignment::Right) => "right",
            Some(Alignment::Center) => "center",
            _ => "left",
        };
        self.column += 1;
        let name = if self.in_head { "th" } else { "td" };
        self.open_tag(
            &format!("<{name} style=\"{CELL}{alignment}\">"),
            &format!("</{name}>"),
        );
    }

    /// A link within a link, or to what no mail reader follows, is spelled.
    fn link(&mut self, url: &str) {
        let follows = |scheme: &&str| {
            url.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if SCHEMES.iter().any(follows) && self.links == 0 {
            self.open_tag(&format!("<a href=\"{}\">", attribute(url)), "</a>");
        } else {
            self.open_tag("", "");
        }
        let words = self.html.len();
        self.links += 1;
        let Some(open) = self.open.last_mut() else {
            return;
        };
        open.words = words;
        open.spelled = open.closing.is_empty().then(|| url.to_owned());
    }

    /// Opens a tag, unless too many are open.
    fn open_tag(&mut self, opening: &str, closing: &str) {
        let shown = self.open.len() < DEEPEST;
        let closing = if shown {
            closing.to_owned()
        } else {
            String::new()
        };
        if shown {
            self.html.push_str(opening);
        }
        self.open.push(Open {
            closing,
            spelled: None,
            words: 0,
        });
    }
}

/// Whether a piece of HTML is the one that people write for a new line.
fn is_line_break(html: &str) -> bool {
    matches!(html.trim(), "<br>" | "<br/>" | "<br />")
}

/// Text without markup, in which quotes are marked as mails have always marked them.
#[derive(Clone, Copy, Debug)]
struct PlainText;

impl Markup for PlainText {
    fn around(&self, _mark: &Mark, _stretch: &Stretch<'_>) -> Option<(String, String)> {
        None
    }

    fn heading(&self, _level: u8) -> Option<&'static str> {
        None
    }

    fn fence(&self, _info: &str) -> (String, String) {
        Default::default()
    }

    fn text(&self, line: &Line<'_>, range: Range<usize>, written: &mut String) {
        written.push_str(slice(line.text, range));
    }

    fn exact(&self, _mark: &Mark, text: &str, written: &mut String) {
        written.push_str(text);
    }

    fn letter_price(&self, _c: char, _in_pre: bool, _measure: Measure) -> usize {
        0
    }

    fn mark_price(&self, _mark: &Mark, _text: &str, _measure: Measure) -> usize {
        0
    }
}
