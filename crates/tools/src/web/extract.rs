//! What a body says, as text for a model.

use dom_smoothie::{Config, Readability, TextMode};
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::Value;
use std::sync::LazyLock;

/// Pages with more elements than this are not worth the time.
const MAX_ELEMENTS: usize = 50_000;

/// How a page is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    #[default]
    Markdown,
    Text,
}

/// The content of a body, and by what it was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extracted {
    pub(super) text: String,
    pub(super) extractor: &'static str,
}

/// Extracts the content of `body`, which was served as `kind` from `url`.
pub(super) fn extract(body: &str, kind: &str, url: &str, mode: Mode) -> Result<Extracted, String> {
    if kind.ends_with("json")
        && let Ok(value) = serde_json::from_str::<Value>(body)
    {
        let text = serde_json::to_string_pretty(&value).map_err(|error| error.to_string())?;
        return Ok(Extracted { text, extractor: "json" });
    }
    if kind.contains("html") || looks_like_html(body) {
        return Ok(readable(body, url, mode).unwrap_or_else(|| Extracted { text: plain(body), extractor: "raw" }));
    }
    if body.contains('\0') {
        return Err(format!("the content is not text ({kind})"));
    }
    Ok(Extracted { text: body.to_owned(), extractor: "raw" })
}

fn looks_like_html(body: &str) -> bool {
    let start: String = body.trim_start().chars().take(16).collect::<String>().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The main content of a page, its title on top.
fn readable(body: &str, url: &str, mode: Mode) -> Option<Extracted> {
    let config = Config {
        text_mode: match mode {
            Mode::Markdown => TextMode::Markdown,
            Mode::Text => TextMode::Formatted,
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
    let text = if title.is_empty() { content.to_owned() } else { format!("# {title}\n\n{content}") };
    Some(Extracted { text, extractor: "readability" })
}

static INVISIBLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?is)<(script|style|noscript|template)\b.*?</(script|style|noscript|template)\s*>|<!--.*?-->|<[^>]*>")
        .ok()
});

/// `html` without tags, entities decoded, white space collapsed.
pub(super) fn plain(html: &str) -> String {
    let bare = INVISIBLE.as_ref().map_or_else(|| html.into(), |tags| tags.replace_all(html, " "));
    decoded(&bare).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` with the character references that occur in titles and snippets decoded.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let reference = after.split_once(';').filter(|(name, _)| name.len() <= 8);
        if let Some((character, behind)) = reference.and_then(|(name, behind)| Some((named(name)?, behind))) {
            out.push(character);
            rest = behind;
        } else {
            out.push('&');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

fn named(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "hellip" => '…',
        "ndash" => '–',
        "mdash" => '—',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "middot" => '·',
        "copy" => '©',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_references_become_text() {
        let table = [
            ("<b>a</b>  &amp;\n b", "a & b"),
            ("5 &lt; 6 &#38; &#x4e2d; &unknown; &", "5 < 6 & 中 &unknown; &"),
            ("<script>x<y</script>left<!-- no -->", "left"),
        ];
        for (html, expected) in table {
            assert_eq!(plain(html), expected);
        }
    }

    #[test]
    fn what_is_served_decides_how_it_is_read() {
        let json = extract(r#"{"a":[1]}"#, "application/json", "http://x.example/", Mode::Text).unwrap();
        assert_eq!(json, Extracted { text: "{\n  \"a\": [\n    1\n  ]\n}".into(), extractor: "json" });
        let raw = extract("a\nb", "text/plain", "http://x.example/", Mode::Text).unwrap();
        assert_eq!(raw, Extracted { text: "a\nb".into(), extractor: "raw" });
        let page = format!(
            "<html><head><title>Tea</title></head><body><article><h2>Water</h2><p>{}</p>\
             <p>See <a href='/more'>more</a>.</p></article></body></html>",
            "Boil it, let it cool a little, pour it over the leaves. ".repeat(12)
        );
        let read = extract(&page, "text/html", "http://x.example/a", Mode::Markdown).unwrap();
        assert_eq!(read.extractor, "readability");
        assert!(read.text.starts_with("# Tea\n\n"), "{}", read.text);
        assert!(read.text.contains("[more](http://x.example/more)"), "{}", read.text);
        assert!(extract("a\0b", "image/png", "http://x.example/", Mode::Text).is_err());
    }
}
