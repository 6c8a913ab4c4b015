//! Decodes bodies by their declared encoding, or by a guess.

use chardetng::EncodingDetector;
use encoding_rs::{Encoding, UTF_8};

/// Length of the beginning of a page that is searched for its encoding, in bytes.
const PRELUDE: usize = 2048;
/// Length of the beginning of a page from which its encoding is guessed, in bytes.
const GUESSED: usize = 64 << 10;

/// Decodes a body by its byte order mark, by the encoding in the header, or in the page itself, or as
/// UTF-8 if it is valid; otherwise the encoding is guessed. `header` is in lower case.
pub(super) fn decoded(body: &[u8], header: &str) -> String {
    let declared = || {
        let prelude = body.get(..PRELUDE).unwrap_or(body);
        let prelude = String::from_utf8_lossy(prelude).to_ascii_lowercase();
        value_in(&prelude, "charset=").or_else(|| value_in(&prelude, "encoding="))
    };
    let encoding = value_in(header, "charset=")
        .or_else(declared)
        .and_then(|name| Encoding::for_label(name.as_bytes()));
    // A mark at the beginning prevails.
    encoding
        .unwrap_or_else(|| guessed(body))
        .decode(body)
        .0
        .into_owned()
}

fn guessed(body: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(body).is_ok() {
        return UTF_8;
    }
    let start = body.get(..GUESSED).unwrap_or(body);
    let mut detector = EncodingDetector::new();
    detector.feed(start, start.len() == body.len());
    detector.guess(None, true)
}

/// Returns the value after `key`.
fn value_in(text: &str, key: &str) -> Option<String> {
    let (_, after) = text.split_once(key)?;
    let name: String = after
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
        .collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_declared_marked_or_guessed() {
        let gbk = b"\xbf\xa7\xb7\xc8\xca\xc7\xd2\xbb\xd6\xd6\xd2\xfb\xc6\xb7\xa3\xac\xcb\xfc\xba\xdc\xba\xc3\xba\xc8\xa1\xa3";
        let text = "咖啡是一种饮品，它很好喝。";
        for (body, header, expected) in [
            (&gbk[..], "text/html; charset=gbk", text),
            (
                &[b"<meta charset=\"gbk\">", &gbk[..]].concat()[..],
                "text/html",
                format!("<meta charset=\"gbk\">{text}").as_str(),
            ),
            (
                &[b"<?xml version='1.0' encoding='GBK'?>", &gbk[..]].concat(),
                "",
                format!("<?xml version='1.0' encoding='GBK'?>{text}").as_str(),
            ),
            (&gbk[..], "text/plain", text),
            (text.as_bytes(), "text/plain", text),
            (b"\xff\xfea\0b\0", "text/plain; charset=utf-8", "ab"),
            (b"\xef\xbb\xbfab", "text/plain; charset=gbk", "ab"),
            (
                b"caf\xe9 au lait, d\xe9j\xe0 vu",
                "text/plain",
                "café au lait, déjà vu",
            ),
            (b"", "text/plain; charset=nonsense", ""),
        ] {
            assert_eq!(decoded(body, header), expected, "{header}");
        }
    }
}
