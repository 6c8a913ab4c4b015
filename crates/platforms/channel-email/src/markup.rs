//! The HTML body of a mail.
//!
//! Decision: a mail is not split, so its HTML is written from the parser's events, with real lists
//! and tables, and styled by `style` attributes because many readers drop style sheets. Only a few
//! tags and three kinds of address ever appear, images are links because readers do not load them,
//! and HTML in the source is shown as text. Nothing is nested deeper than [`DEEPEST`]: readers give
//! up on deep nesting.

use nanobot_channel::markup::{
    Alignment, Event, Tag, TagEnd, WholeMarkup, html, slice, starts_with_scheme,
};

/// The addresses that become links.
const SCHEMES: &[&str] = &["http://", "https://", "mailto:"];
/// The deepest nesting of tags.
const DEEPEST: usize = 24;

const BODY: &str = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,'PingFang SC','Microsoft YaHei',sans-serif;font-size:15px;line-height:1.5";
const CODE: &str =
    "font-family:Menlo,Consolas,monospace;background:#f4f4f4;padding:1px 4px;border-radius:3px";
const PRE: &str = "font-family:Menlo,Consolas,monospace;background:#f4f4f4;padding:10px;border-radius:4px;white-space:pre-wrap";
const QUOTE: &str = "margin:0 0 0 4px;padding-left:10px;border-left:3px solid #ccc;color:#555";
const TABLE: &str = "border-collapse:collapse";
const CELL: &str = "border:1px solid #ccc;padding:4px 8px;text-align:";

/// The HTML body of a mail.
#[derive(Clone, Copy, Debug)]
pub struct MailHtml;

impl WholeMarkup for MailHtml {
    fn render<'a>(&self, events: &mut dyn Iterator<Item = Event<'a>>) -> String {
        let mut writer = HtmlWriter::default();
        for event in events {
            writer.event(event);
        }
        format!("<div style=\"{BODY}\">\n{}</div>", writer.html)
    }
}

/// A tag that is open.
struct OpenTag {
    /// The closing tag; empty where the tag was left out.
    closing: String,
    /// The address that has to be written after the words of its link.
    spelled: Option<String>,
    /// The length of the HTML before the words.
    words: usize,
}

/// The state of rendering.
#[derive(Default)]
struct HtmlWriter {
    html: String,
    open: Vec<OpenTag>,
    alignments: Vec<Alignment>,
    column: usize,
    /// The number of open links and images.
    links: usize,
    in_head: bool,
}

impl HtmlWriter {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => html::escape(&text, &mut self.html),
            Event::Code(code) => {
                self.html.push_str(&format!("<code style=\"{CODE}\">"));
                html::escape(&code, &mut self.html);
                self.html.push_str("</code>");
            }
            // Line ends in a chat message are intended, unlike those of a text file.
            Event::LineBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            Event::TaskMarker { done } => self.html.push_str(if done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open_tag("<p>", "</p>\n"),
            Tag::Heading { level } => {
                self.open_tag(&format!("<h{level}>"), &format!("</h{level}>\n"));
            }
            Tag::Quote => self.open_tag(
                &format!("<blockquote style=\"{QUOTE}\">\n"),
                "</blockquote>\n",
            ),
            Tag::CodeBlock { language } => {
                let class = match &*language {
                    "" => String::new(),
                    language => format!(" class=\"language-{}\"", html::attribute(language)),
                };
                let opening = format!("<pre style=\"{PRE}\"><code{class}>");
                self.open_tag(&opening, "</code></pre>\n");
            }
            Tag::List { first: None } => self.open_tag("<ul>\n", "</ul>\n"),
            Tag::List { first: Some(first) } => {
                self.open_tag(&format!("<ol start=\"{first}\">\n"), "</ol>\n");
            }
            Tag::Item => self.open_tag("<li>", "</li>\n"),
            Tag::Table { alignments } => {
                self.alignments = alignments;
                self.open_tag(&format!("<table style=\"{TABLE}\">\n"), "</table>\n");
            }
            Tag::TableHead => self.row(true),
            Tag::TableRow => self.row(false),
            Tag::TableCell => self.cell(),
            Tag::Italic => self.open_tag("<em>", "</em>"),
            Tag::Bold => self.open_tag("<strong>", "</strong>"),
            Tag::Strike => self.open_tag("<s>", "</s>"),
            Tag::Link { url } => self.link(&url),
            Tag::Html => self.open_tag("", ""),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        if tag == TagEnd::Link {
            self.links = self.links.saturating_sub(1);
        }
        let Some(open) = self.open.pop() else { return };
        if let Some(url) = open.spelled {
            let words = slice(&self.html, open.words..self.html.len());
            let mut shown = String::new();
            html::escape(&url, &mut shown);
            match words {
                "" => self.html.push_str(&shown),
                words if words == shown => {}
                _ => self.html.push_str(&format!(" ({shown})")),
            }
        }
        self.html.push_str(&open.closing);
    }

    fn row(&mut self, is_head: bool) {
        self.column = 0;
        self.in_head = is_head;
        self.open_tag("<tr>", "</tr>\n");
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

    /// Opens a link. A link inside a link, or to an address that mail readers do not link, is
    /// written as text.
    fn link(&mut self, url: &str) {
        if starts_with_scheme(url, SCHEMES) && self.links == 0 {
            let opening = format!("<a href=\"{}\">", html::attribute(url));
            self.open_tag(&opening, "</a>");
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
        self.open.push(OpenTag {
            closing,
            spelled: None,
            words: 0,
        });
    }
}
