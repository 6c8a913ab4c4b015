//! The name of a file in the header `Content-Disposition` (RFC 6266, with the extended values of
//! RFC 5987). WeCom encodes plain values in the same way, too.

/// Longest name that is read, in bytes.
const LIMIT: usize = 1024;

/// Returns the name; `None` without one.
pub(crate) fn file_name(header: &str) -> Option<String> {
    let header = header.get(..LIMIT).unwrap_or(header);
    let parameters = parameters(header);
    let value = |name: &str| {
        let mut parameters = parameters.iter();
        let (_, value) = parameters.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value.as_str())
    };
    let extended = value("filename*").and_then(|value| {
        let (charset, rest) = value.split_once('\'')?;
        let (_language, encoded) = rest.split_once('\'')?;
        let is_readable = charset.eq_ignore_ascii_case("utf-8");
        is_readable.then(|| decoded(encoded))
    });
    let name = extended.or_else(|| value("filename").map(decoded))?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the parameters: names and values without quotes.
fn parameters(header: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let (mut piece, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for c in header.chars().chain([';']) {
        match c {
            _ if is_escaped => {
                piece.push(c);
                is_escaped = false;
            }
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => {
                if let Some((name, value)) = piece.split_once('=') {
                    parameters.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                piece.clear();
            }
            _ => piece.push(c),
        }
    }
    parameters
}

/// Decodes percent signs. What is no UTF-8 afterwards is replaced.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes: Vec<u8> = pieces.next().unwrap_or_default().into();
    for piece in pieces {
        let code = piece
            .get(..2)
            .filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(piece.bytes().skip(2));
            }
            None => {
                bytes.push(b'%');
                bytes.extend(piece.bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_read_in_every_form() {
        let table = [
            ("attachment; filename=a.txt", Some("a.txt")),
            ("attachment; FileName=\"a b.txt\"", Some("a b.txt")),
            ("attachment; filename=\"a;\\\"b.txt\"", Some("a;\"b.txt")),
            (
                "attachment; filename=\"%E6%96%87.txt\"; filename*=UTF-8''%E6%96%87%20x.txt",
                Some("文 x.txt"),
            ),
            ("filename*=utf-8'zh'%E6%96%87.txt", Some("文.txt")),
            (
                "filename*=iso-8859-1''%E4; filename=plain.txt",
                Some("plain.txt"),
            ),
            ("filename=%E6%96", Some("\u{fffd}")),
            ("filename=100%.txt", Some("100%.txt")),
            ("filename=%+1", Some("%+1")),
            ("attachment", None),
            ("filename=\"\"", None),
            ("filename*=''", None),
            ("", None),
        ];
        for (header, expected) in table {
            assert_eq!(file_name(header).as_deref(), expected, "{header}");
        }
        let long = format!("filename={}", "語".repeat(1000));
        assert!(file_name(&long).is_some());
    }
}
