//! Extracts the text of a web page or another HTTP body.

mod encoding;
mod feed;

use std::io::{self, Write};

use self::{encoding::decoded, feed::feed};
use crate::{ExtractError, Extractor, PageRequest, PageText, plain};

/// Maximum size of the extracted text, in bytes.
pub const MAX_TEXT: usize = 8 << 20;

/// Extracts the text of a body: JSON indented, HTML by `content`, a news feed as a list of its
/// entries, anything else as it is. If `content` finds nothing, the text of the whole page is returned
/// without its tags.
///
/// # Errors
/// Returns [`ExtractError::Unreadable`] if the body is not text.
pub fn read_body(
    page: &PageRequest,
    content: impl Fn(&str, &PageRequest) -> Option<(String, Extractor)>,
) -> Result<PageText, ExtractError> {
    let header = page.content_type.to_ascii_lowercase();
    let kind = header.split(';').next().unwrap_or_default().trim();
    if is_binary(&page.body) {
        return Err(ExtractError::Unreadable(format!(
            "the content is not text ({kind})"
        )));
    }
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
    if let Some(text) = feed(&body) {
        return Ok(bounded(text, Extractor::Raw));
    }
    if kind.contains("html") || looks_like_html(&body) {
        let content = content(&body, page);
        let (text, extractor) = content.unwrap_or_else(|| (plain(&body), Extractor::Raw));
        return Ok(bounded(text, extractor));
    }
    if body.contains('\0') {
        return Err(ExtractError::Unreadable(format!(
            "the content is not text ({kind})"
        )));
    }
    Ok(bounded(body, Extractor::Raw))
}

/// Returns `true` if a body is no text in any encoding: it begins like an archive, a program or a
/// sound, or has many control characters.
fn is_binary(body: &[u8]) -> bool {
    let known: [&[u8]; 8] = [
        b"PK\x03\x04",
        b"\x7fELF",
        b"\x1f\x8b",
        b"7z\xbc\xaf",
        b"OggS",
        b"ID3",
        b"\0asm",
        b"Rar!",
    ];
    let start = body.get(..1024).unwrap_or(body);
    let is_control = |byte: &&u8| **byte < 7 || (14..27).contains(*byte);
    // UTF-16 text has null bytes, and a mark at its beginning.
    let has_mark = body.starts_with(b"\xff\xfe") || body.starts_with(b"\xfe\xff");
    let controls = start.iter().filter(is_control).count();
    known.iter().any(|known| body.starts_with(known)) || (!has_mark && controls * 20 > start.len())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextMode;

    fn page(
        body: impl Into<Vec<u8>>,
        content_type: &str,
        mode: TextMode,
    ) -> Result<PageText, ExtractError> {
        let (url, content_type) = ("http://x.example/a".to_owned(), content_type.to_owned());
        let request = PageRequest {
            url,
            content_type,
            mode,
            body: body.into(),
        };
        read_body(&request, |_, _| None)
    }

    #[test]
    fn body_is_read_by_its_media_type() {
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
        let html = "<html><title>Tea</title><p>Boil <b>water</b>.</p></html>";
        let found = page(html, "text/html", TextMode::Text).unwrap();
        assert_eq!(found.extractor, Extractor::Raw);
        assert!(!found.text.contains('<'), "{}", found.text);
        for body in [&b"a\0b"[..], b"PK\x03\x04ab", b"\x7fELF", &[1; 50]] {
            let refused = page(body, "image/png", TextMode::Text);
            assert!(
                matches!(refused, Err(ExtractError::Unreadable(_))),
                "{body:?}"
            );
        }
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
