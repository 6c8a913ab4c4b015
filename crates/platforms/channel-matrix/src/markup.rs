//! Matrix' subset of HTML (Matrix specification, "m.room.message msgtypes").
//!
//! Decision: only the tags and attributes here are ever written, and all text is escaped, so there
//! is nothing to sanitise. Tables are native. Pictures are links, because a client would fetch
//! them.

use nanobot_channel::Block;
use nanobot_channel::markup::{
    Document, Mark, Markup, Overhead, Table, TableLimits, TagMarkup, Tags, html, render_tags,
};

/// The addresses that become links.
const SCHEMES: &[&str] = &["https://", "http://", "mailto:", "matrix:"];
const TABLE_LIMITS: TableLimits = TableLimits {
    tables: 8,
    rows: 200,
    columns: 30,
    cells: 8000,
    text: 8000,
    total: 16_000,
};
/// Tags of blocks, next to which a line break would be an empty line.
const BLOCK_TAGS: [&str; 9] = [
    "pre",
    "blockquote",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "table",
];

/// Matrix' HTML. Matrix counts the bytes of the whole event, so a part is kept short enough for
/// both of its forms.
#[derive(Clone, Copy, Debug)]
pub struct MatrixHtml;

impl Markup for MatrixHtml {
    fn render(&self, document: &Document) -> String {
        with_line_breaks(&render_tags(document, self))
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        SCHEMES
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        None
    }

    fn table_limits(&self) -> Option<TableLimits> {
        Some(TABLE_LIMITS)
    }
}

impl TagMarkup for MatrixHtml {
    fn tags(&self, mark: &Mark, _text: &str) -> Option<Tags> {
        let tags = match mark {
            Mark::Heading { level } => {
                let level = (*level).clamp(1, 6);
                Tags::new(format!("<h{level}>"), format!("</h{level}>"))
            }
            Mark::Bold => Tags::new("<strong>", "</strong>"),
            Mark::Italic => Tags::new("<em>", "</em>"),
            Mark::Strike => Tags::new("<del>", "</del>"),
            Mark::Code => Tags::new("<code>", "</code>"),
            Mark::Pre { info } if is_language(info) => {
                let opening = format!("<pre><code class=\"language-{info}\">");
                Tags::new(opening, "</code></pre>")
            }
            Mark::Pre { .. } => Tags::new("<pre><code>", "</code></pre>"),
            Mark::Link { url } => {
                Tags::new(format!("<a href=\"{}\">", html::attribute(url)), "</a>")
            }
            Mark::Quote => Tags::new("<blockquote>", "</blockquote>"),
            Mark::Address | Mark::Reference | Mark::Item => return None,
        };
        Some(tags)
    }

    fn escape(&self, text: &str, out: &mut String) {
        html::escape(text, out);
    }
}

/// Renders blocks with native tables.
pub(crate) fn render_blocks(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Text(html) => out.push_str(html),
            Block::Table(table) => push_table(table, &mut out),
        }
    }
    out
}

fn push_table(table: &Table, out: &mut String) {
    let mut rows = table.rows.iter();
    out.push_str("<table>");
    if let Some(head) = rows.next() {
        out.push_str("<thead>");
        push_row(head, "th", out);
        out.push_str("</thead>");
    }
    out.push_str("<tbody>");
    for row in rows {
        push_row(row, "td", out);
    }
    out.push_str("</tbody></table>");
}

fn push_row(cells: &[String], tag: &str, out: &mut String) {
    out.push_str("<tr>");
    for cell in cells {
        out.push_str(&format!("<{tag}>"));
        let mut text = String::new();
        html::escape(cell, &mut text);
        out.push_str(&text.replace('\n', "<br>"));
        out.push_str(&format!("</{tag}>"));
    }
    out.push_str("</tr>");
}

fn is_language(info: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
    !info.is_empty() && info.chars().all(is_part)
}

/// Writes line ends outside of code blocks as tags. The text is escaped, so a tag in it is one of
/// ours.
fn with_line_breaks(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, code)) = rest.split_once("<pre>") {
        let (code, after) = code.split_once("</pre>").unwrap_or((code, ""));
        out.push_str(&before.replace('\n', "<br>"));
        out.push_str("<pre>");
        out.push_str(code);
        out.push_str("</pre>");
        rest = after;
    }
    out.push_str(&rest.replace('\n', "<br>"));
    for tag in BLOCK_TAGS {
        let (opening, closing) = (format!("<{tag}>"), format!("</{tag}>"));
        for _ in 0..2 {
            out = out
                .replace(&format!("<br>{opening}"), &opening)
                .replace(&format!("{closing}<br>"), &closing);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_tags_outside_of_code() {
        let table = [
            ("a\nb\n\nc", "a<br>b<br><br>c"),
            (
                "a\n\n<pre><code>x\n\ny</code></pre>\n\nb",
                "a<pre><code>x\n\ny</code></pre>b",
            ),
            ("<h1>t</h1>\n\nb", "<h1>t</h1>b"),
            (
                "<blockquote>a\nb</blockquote>\nc",
                "<blockquote>a<br>b</blockquote>c",
            ),
        ];
        for (html, expected) in table {
            assert_eq!(with_line_breaks(html), expected);
        }
    }

    #[test]
    fn table_is_escaped() {
        let table = Table {
            rows: vec![
                vec!["a<b".to_owned(), "c".to_owned()],
                vec!["1\n2".to_owned(), String::new()],
            ],
            right: vec![false, false],
        };
        let blocks = [Block::Text("<em>x</em>".to_owned()), Block::Table(table)];
        assert_eq!(
            render_blocks(&blocks),
            "<em>x</em><table><thead><tr><th>a&lt;b</th><th>c</th></tr></thead>\
             <tbody><tr><td>1<br>2</td><td></td></tr></tbody></table>"
        );
    }

    #[test]
    fn language_is_a_plain_word() {
        assert!(is_language("c++") && !is_language("") && !is_language("x\" onclick"));
    }
}
