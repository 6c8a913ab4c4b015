//! Faces and mentions in a text: tags in angle brackets.
//!
//! A face is `<faceType=…,faceId="…",ext="…">`, where `ext` is JSON in base64 with its name. QQ
//! escapes the brackets that a person writes, so what is not a tag is unescaped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_channel::json;
use nanobot_channel::markup::slice;
use serde::Deserialize;

const FACE: &str = "<faceType=";
/// Longest tag that is read, in bytes.
const TAG_LIMIT: usize = 4096;
/// Longest name of a face, in characters.
const NAME_LIMIT: usize = 32;

/// Returns a text with faces as `[face: name]`, and without the mentions of `own` names.
pub(crate) fn readable(text: &str, own: &[&str]) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut at, mut close) = (0, 0);
    while let Some(start) = find_from(text, at, '<') {
        out.push_str(&unescaped(slice(text, at..start)));
        if close <= start {
            // Without another end, no tag follows.
            close = find_from(text, start, '>').unwrap_or(usize::MAX);
        }
        let end = close.saturating_add(1);
        let tag = Some(slice(text, start..end)).filter(|tag| tag.len() <= TAG_LIMIT);
        if let Some(shown) = tag.and_then(|tag| shown(tag, own)) {
            out.push_str(&shown);
            at = end;
        } else {
            out.push('<');
            at = start + 1;
        }
    }
    out.push_str(&unescaped(slice(text, at..text.len())));
    out
}

fn find_from(text: &str, at: usize, letter: char) -> Option<usize> {
    let rest = text.get(at..)?;
    rest.find(letter).map(|found| at + found)
}

/// Returns what is shown of a tag; `None` if it is none.
fn shown(tag: &str, own: &[&str]) -> Option<String> {
    if tag.starts_with(FACE) {
        let name = face_name(tag).unwrap_or_default();
        return Some(match name.as_str() {
            "" => "[face]".to_owned(),
            name => format!("[face: {name}]"),
        });
    }
    let mention = tag.strip_prefix("<@")?.strip_suffix('>')?;
    let name = mention.strip_prefix('!').unwrap_or(mention);
    own.contains(&name).then(String::new)
}

fn face_name(tag: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Face {
        text: String,
    }
    let (_, ext) = tag.split_once("ext=\"")?;
    let (ext, _) = ext.split_once('"')?;
    let face: Face = json::from_slice(&STANDARD.decode(ext).ok()?).ok()?;
    let is_shown = |c: &char| !c.is_control() && !matches!(c, '[' | ']');
    let name: String = face.text.chars().filter(is_shown).collect();
    Some(name.trim().chars().take(NAME_LIMIT).collect())
}

fn unescaped(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_and_own_mentions_are_readable() {
        let table = [
            (
                r#"hi <faceType=4,faceId="",ext="eyJ0ZXh0IjoiW+a7oeWktOmXruWPt10ifQ=="> there"#,
                "hi [face: 满头问号] there",
            ),
            (r#"<faceType=1,faceId="14",ext="no base64">"#, "[face]"),
            ("<faceType=1>", "[face]"),
            ("<@!B> <@B>ask <@C>", " ask <@C>"),
            ("a < b <b>x</b> 1 <", "a < b <b>x</b> 1 <"),
            (
                "&lt;faceType=1&gt; &amp;lt; &nbsp;",
                "<faceType=1> &lt; &nbsp;",
            ),
            ("<faceType=<@B>", "[face]"),
            ("<<@B>>", "<>"),
        ];
        for (text, expected) in table {
            assert_eq!(readable(text, &["B"]), expected, "{text}");
        }
    }

    #[test]
    fn name_of_a_face_cannot_end_its_mark() {
        let name = STANDARD.encode(r#"{"text": "a]\n[b: /new"}"#);
        let tag = format!("<faceType=4,ext=\"{name}\">");
        assert_eq!(readable(&tag, &[]), "[face: ab: /new]");
        let long = STANDARD.encode(format!(r#"{{"text": "{}"}}"#, "語".repeat(200)));
        let tag = format!("<faceType=4,ext=\"{long}\">");
        assert_eq!(readable(&tag, &[]).chars().count(), 8 + NAME_LIMIT);
        let endless = format!("<faceType={}", "x".repeat(TAG_LIMIT));
        assert_eq!(readable(&format!("{endless}>"), &[]), format!("{endless}>"));
    }
}
