//! Parses Telegram's HTML, which has a few strictly nested tags, into text and entities.
//!
//! Unlike a browser, Telegram refuses a whole message because of one unknown or unclosed tag.
//! Clients have to be tested against that refusal. Offsets and lengths count UTF-16 units.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

/// All supported tags.
const TAGS: &[&str] = &[
    "a",
    "b",
    "blockquote",
    "code",
    "del",
    "em",
    "i",
    "ins",
    "pre",
    "s",
    "span",
    "strike",
    "strong",
    "tg-emoji",
    "tg-spoiler",
    "u",
];

/// Text without markup, and the entities that the markup described.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Formatted {
    pub(crate) text: String,
    pub(crate) entities: Vec<Value>,
}

/// Returns the length as Telegram counts it.
pub(crate) fn utf16_length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Parses markup. The error is the text that Telegram puts after `can't parse entities: `.
pub(crate) fn parse(source: &str) -> Result<Formatted, String> {
    let mut parser = HtmlParser {
        source,
        rest: source,
        text: String::new(),
        open: Vec::new(),
        spans: Vec::new(),
    };
    parser.run()?;
    if let Some(tag) = parser.open.last() {
        return Err(format!(
            "Can't find end tag corresponding to start tag \"{}\"",
            tag.name
        ));
    }
    Ok(trimmed(&parser.text, parser.spans))
}

/// Returns text without markup, trimmed as Telegram trims it.
pub(crate) fn plain(source: &str) -> Formatted {
    trimmed(source, Vec::new())
}

struct HtmlParser<'a> {
    source: &'a str,
    rest: &'a str,
    text: String,
    open: Vec<Tag>,
    spans: Vec<EntitySpan>,
}

struct Tag {
    name: String,
    entity: Option<Value>,
    start: usize,
}

struct EntitySpan {
    entity: Value,
    start: usize,
    end: usize,
}

impl<'a> HtmlParser<'a> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(next) = self.rest.chars().next() {
            match next {
                '<' => self.tag()?,
                '&' => self.reference(),
                _ => {
                    let end = self.rest.find(['<', '&']).unwrap_or(self.rest.len());
                    let text = self.advance(end);
                    self.text.push_str(text);
                }
            }
        }
        Ok(())
    }

    fn advance(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn offset(&self) -> usize {
        self.source.len() - self.rest.len()
    }

    /// Parses a character reference; an `&` that begins none is plain text.
    fn reference(&mut self) {
        if let Some((name, length)) = self
            .rest
            .split_once(';')
            .map(|(name, _)| (name, name.len() + 1))
            && let Some(character) = resolve(name.trim_start_matches('&'))
        {
            self.text.push(character);
            self.advance(length);
        } else {
            let ampersand = self.advance(1);
            self.text.push_str(ampersand);
        }
    }

    fn tag(&mut self) -> Result<(), String> {
        let offset = self.offset();
        self.advance(1);
        if self.rest.starts_with('/') {
            self.advance(1);
            return self.end_tag(offset);
        }
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || c == '>')
            .unwrap_or(self.rest.len());
        let name = self.advance(end).to_ascii_lowercase();
        if !TAGS.contains(&name.as_str()) {
            return Err(format!(
                "Unsupported start tag \"{name}\" at byte offset {offset}"
            ));
        }
        let attributes = self.attributes(offset)?;
        let attribute = |key: &str| {
            attributes
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value.as_str())
        };
        let entity = match name.as_str() {
            "b" | "strong" => Some(json!({"type": "bold"})),
            "i" | "em" => Some(json!({"type": "italic"})),
            "u" | "ins" => Some(json!({"type": "underline"})),
            "s" | "strike" | "del" => Some(json!({"type": "strikethrough"})),
            "tg-spoiler" => Some(json!({"type": "spoiler"})),
            "span" if attribute("class") == Some("tg-spoiler") => Some(json!({"type": "spoiler"})),
            "span" => {
                return Err(format!(
                    "Tag \"span\" must have class \"tg-spoiler\" at byte offset {offset}"
                ));
            }
            "code" => self.code(attribute("class")),
            "pre" => Some(json!({"type": "pre"})),
            "blockquote" if attribute("expandable").is_some() => {
                Some(json!({"type": "expandable_blockquote"}))
            }
            "blockquote" => Some(json!({"type": "blockquote"})),
            "a" => attribute("href")
                .filter(|url| url::Url::parse(url).is_ok())
                .map(|url| json!({"type": "text_link", "url": url})),
            "tg-emoji" => attribute("emoji-id")
                .map(|id| json!({"type": "custom_emoji", "custom_emoji_id": id})),
            _ => None,
        };
        self.open.push(Tag {
            name,
            entity,
            start: self.text.len(),
        });
        Ok(())
    }

    /// Classifies a `code` tag: `<pre><code class="language-x">` is one block with a language, any
    /// other `code` is inline.
    fn code(&mut self, class: Option<&str>) -> Option<Value> {
        let block = self
            .open
            .last_mut()
            .filter(|tag| tag.name == "pre" && tag.start == self.text.len());
        let language = class.and_then(|class| class.strip_prefix("language-"));
        if let (
            Some(Tag {
                entity: Some(entity),
                ..
            }),
            Some(language),
        ) = (block, language)
        {
            set(entity, "language", language);
            return None;
        }
        Some(json!({"type": "code"}))
    }

    fn end_tag(&mut self, offset: usize) -> Result<(), String> {
        let Some((name, _)) = self.rest.split_once('>') else {
            return Err(format!("Unclosed end tag at byte offset {offset}"));
        };
        self.advance(name.len() + 1);
        let name = name.trim().to_ascii_lowercase();
        let Some(tag) = self.open.pop() else {
            return Err(format!("Unexpected end tag at byte offset {offset}"));
        };
        if !name.is_empty() && name != tag.name {
            let expected = tag.name;
            return Err(format!(
                "Unmatched end tag at byte offset {offset}, expected \"</{expected}>\", found \"</{name}>\""
            ));
        }
        if let Some(entity) = tag.entity {
            self.spans.push(EntitySpan {
                entity,
                start: tag.start,
                end: self.text.len(),
            });
        }
        Ok(())
    }

    /// Parses everything up to the `>` of a start tag.
    fn attributes(&mut self, offset: usize) -> Result<Vec<(String, String)>, String> {
        let unclosed = || format!("Unclosed start tag at byte offset {offset}");
        let mut attributes = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with('>') {
                self.advance(1);
                return Ok(attributes);
            }
            let end = self
                .rest
                .find(|c: char| c.is_whitespace() || c == '=' || c == '>')
                .ok_or_else(unclosed)?;
            let name = self.advance(end).to_ascii_lowercase();
            if name.is_empty() {
                return Err(format!(
                    "Empty attribute name in the tag at byte offset {offset}"
                ));
            }
            self.rest = self.rest.trim_start();
            let mut value = String::new();
            if self.rest.starts_with('=') {
                self.advance(1);
                self.rest = self.rest.trim_start();
                value = self.attribute_value().ok_or_else(unclosed)?;
            }
            attributes.push((name, value));
        }
    }

    fn attribute_value(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let raw = if let Some(quote) = quote {
            self.advance(1);
            let end = self.rest.find(quote)?;
            let raw = self.advance(end);
            self.advance(1);
            raw
        } else {
            let end = self.rest.find(|c: char| c.is_whitespace() || c == '>')?;
            self.advance(end)
        };
        let mut inner = HtmlParser {
            source: raw,
            rest: raw,
            text: String::new(),
            open: Vec::new(),
            spans: Vec::new(),
        };
        while let Some(next) = inner.rest.chars().next() {
            if next == '&' {
                inner.reference();
            } else {
                let taken = inner.advance(next.len_utf8());
                inner.text.push_str(taken);
            }
        }
        Some(inner.text)
    }
}

fn resolve(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// Trims white space at both ends and turns byte spans into UTF-16 entities, outermost first.
fn trimmed(text: &str, mut spans: Vec<EntitySpan>) -> Formatted {
    let kept = text.trim();
    let from = text.len() - text.trim_start().len();
    let until = from + kept.len();
    // Inner spans close first, so of spans with the same start the outermost is the last.
    spans.reverse();
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let units = |end: usize| text.get(from..end).map(utf16_length).unwrap_or_default();
    let mut entities = Vec::new();
    for mut span in spans {
        let (start, end) = (span.start.clamp(from, until), span.end.clamp(from, until));
        if start < end {
            let offset = units(start);
            set(&mut span.entity, "offset", offset);
            set(&mut span.entity, "length", units(end) - offset);
            entities.push(span.entity);
        }
    }
    Formatted {
        text: kept.to_owned(),
        entities,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_entities() {
        let table = [
            ("plain", "plain", json!([])),
            (
                " <b>a</b> ",
                "a",
                json!([{"type": "bold", "offset": 0, "length": 1}]),
            ),
            (
                "😀<i>é</i>",
                "😀é",
                json!([{"type": "italic", "offset": 2, "length": 1}]),
            ),
            (
                "a &lt;b&gt; &amp; &#65;&#x42; &nope; &",
                "a <b> & AB &nope; &",
                json!([]),
            ),
            (
                "<b>x<i>y</i></b>",
                "xy",
                json!([{"type": "bold", "offset": 0, "length": 2}, {"type": "italic", "offset": 1, "length": 1}]),
            ),
            (
                "<b><i>y</i></b>",
                "y",
                json!([{"type": "bold", "offset": 0, "length": 1}, {"type": "italic", "offset": 0, "length": 1}]),
            ),
            (
                "<a href=\"https://x.y/?a=1&amp;b=2\">l</a>",
                "l",
                json!([{"type": "text_link", "url": "https://x.y/?a=1&b=2", "offset": 0, "length": 1}]),
            ),
            (
                "<pre><code class=\"language-rust\">let</code></pre>",
                "let",
                json!([{"type": "pre", "language": "rust", "offset": 0, "length": 3}]),
            ),
            (
                "<blockquote expandable>q</blockquote>",
                "q",
                json!([{"type": "expandable_blockquote", "offset": 0, "length": 1}]),
            ),
            ("<b></b>x", "x", json!([])),
        ];
        for (source, text, entities) in table {
            let parsed = parse(source).unwrap();
            assert_eq!(
                (parsed.text.as_str(), json!(parsed.entities)),
                (text, entities),
                "{source}"
            );
        }
    }

    #[test]
    fn broken_markup_is_refused() {
        let table = [
            (
                "<b>x",
                "Can't find end tag corresponding to start tag \"b\"",
            ),
            ("x</b>", "Unexpected end tag at byte offset 1"),
            (
                "<b>x</i>",
                "Unmatched end tag at byte offset 4, expected \"</b>\", found \"</i>\"",
            ),
            ("a<br>b", "Unsupported start tag \"br\" at byte offset 1"),
            ("1 < 2", "Unsupported start tag \"\" at byte offset 2"),
            (
                "<h1>x</h1>",
                "Unsupported start tag \"h1\" at byte offset 0",
            ),
            ("<b", "Unclosed start tag at byte offset 0"),
            ("<a href=\"x>y</a>", "Unclosed start tag at byte offset 0"),
            (
                "<span>x</span>",
                "Tag \"span\" must have class \"tg-spoiler\" at byte offset 0",
            ),
        ];
        for (source, problem) in table {
            assert_eq!(parse(source), Err(problem.to_owned()), "{source}");
        }
    }
}
