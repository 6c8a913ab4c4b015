//! Extracts the text of a web page or another HTTP body.

mod encoding;

use std::io::{self, Write};

use dom_smoothie::{Config, Readability, TextMode as Form};

use self::encoding::decoded;
use crate::{ExtractError, Extractor, PageRequest, PageText, TextMode, plain};

/// Maximum number of elements of a page that is parsed.
const MAX_ELEMENTS: usize = 50_000;

/// Maximum size of the extracted text, in bytes.
pub(crate) const MAX_TEXT: usize = 8 << 20;

/// Extracts the content of a body.
pub(crate) fn read(page: &PageRequest) -> Result<PageText, ExtractError> {
    let header = page.content_type.to_ascii_lowercase();
    let kind = header.split(';').next().unwrap_or_default().trim();
    let body = decoded(&page.body, &header);
    if kind.ends_with("json")
        && let Some(text) = indented(&body)
    {
        return Ok(PageText {
            text,
            extractor: Extractor::Json,
            cut: false,
        });
    }
    if kind.contains("html") || looks_like_html(&body) {
        let content = readable(&body, &page.url, page.mode);
        let (text, extractor) = content.map_or_else(
            || (plain(&body), Extractor::Raw),
            |text| (text, Extractor::Readability),
        );
        return Ok(bounded(text, extractor));
    }
    if body.contains('\0') {
        return Err(ExtractError::Unreadable(format!(
            "the content is not text ({kind})"
        )));
    }
    Ok(bounded(body, Extractor::Raw))
}

fn bounded(mut text: String, extractor: Extractor) -> PageText {
    let cut = text.len() > MAX_TEXT;
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    PageText {
        text,
        extractor,
        cut,
    }
}

fn looks_like_html(body: &str) -> bool {
    let start: String = body
        .trim_start()
        .chars()
        .take(16)
        .collect::<String>()
        .to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// Pretty-prints a JSON document while it is parsed, because a tree of it would take a hundred
/// times its size. Returns `None` if it is not valid JSON, or too long when indented.
fn indented(body: &str) -> Option<String> {
    let mut out = Bounded(Vec::new());
    let mut from = serde_json::Deserializer::from_str(body);
    serde_transcode::transcode(&mut from, &mut serde_json::Serializer::pretty(&mut out)).ok()?;
    from.end().ok()?;
    String::from_utf8(out.0).ok()
}

/// A buffer that refuses to grow beyond [`MAX_TEXT`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_TEXT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the main content of a page, with its title as the heading.
fn readable(body: &str, url: &str, mode: TextMode) -> Option<String> {
    let config = Config {
        text_mode: match mode {
            TextMode::Markdown => Form::Markdown,
            TextMode::Text => Form::Formatted,
        },
        max_elements_to_parse: MAX_ELEMENTS,
        ..Config::default()
    };
    let mut page = Readability::new(body, Some(url), Some(config)).ok()?;
    let article = page.parse().ok()?;
    let content = article.text_content.trim();
    if content.is_empty() {
        return None;
    }
    let title = article.title.trim();
    Some(if title.is_empty() {
        content.to_owned()
    } else {
        format!("# {title}\n\n{content}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(
        body: impl Into<Vec<u8>>,
        content_type: &str,
        mode: TextMode,
    ) -> Result<PageText, ExtractError> {
        let (url, content_type) = ("http://x.example/a".to_owned(), content_type.to_owned());
        read(&PageRequest {
            url,
            content_type,
            mode,
            body: body.into(),
        })
    }

    #[test]
    fn the_media_type_decides_how_a_body_is_read() {
        let json = page(
            r#"{"b":[1,2.5],"a":"\u4e2d"}"#,
            "application/json; x=y",
            TextMode::Text,
        )
        .unwrap();
        let text = "{\n  \"b\": [\n    1,\n    2.5\n  ],\n  \"a\": \"中\"\n}".to_owned();
        assert_eq!(
            json,
            PageText {
                text,
                extractor: Extractor::Json,
                cut: false
            }
        );
        for (body, kind) in [("a\nb", "text/plain"), ("{\"a\":1} {", "application/json")] {
            let raw = page(body, kind, TextMode::Text).unwrap();
            assert_eq!(
                raw,
                PageText {
                    text: body.to_owned(),
                    extractor: Extractor::Raw,
                    cut: false
                }
            );
        }
        let tea = format!(
            "<html><head><title>Tea</title></head><body><article><h2>Water</h2><p>{}</p>\
             <p>See <a href='/more'>more</a>.</p></article></body></html>",
            "Boil it, let it cool a little, pour it over the leaves. ".repeat(12)
        );
        let found = page(tea, "text/html", TextMode::Markdown).unwrap();
        assert_eq!(found.extractor, Extractor::Readability);
        assert!(found.text.starts_with("# Tea\n\n"), "{}", found.text);
        assert!(
            found.text.contains("[more](http://x.example/more)"),
            "{}",
            found.text
        );
        assert!(matches!(
            page("a\0b", "image/png", TextMode::Text),
            Err(ExtractError::Unreadable(_))
        ));
    }

    #[test]
    fn text_is_bounded() {
        let long = page("ä".repeat(MAX_TEXT / 2 + 1), "text/plain", TextMode::Text).unwrap();
        assert_eq!((long.text.len(), long.cut), (MAX_TEXT, true));
        // Each number would be indented by a hundred levels.
        let wide = format!(
            "{}{}1{}",
            "[".repeat(100),
            "1,".repeat(100_000),
            "]".repeat(100)
        );
        let found = page(wide.clone(), "application/json", TextMode::Text).unwrap();
        assert_eq!((found.text, found.extractor), (wide, Extractor::Raw));
    }
}
