//! Parses `multipart/form-data` (RFC 7578).

use bytes::Bytes;

use super::connection::find;

/// A part of a form: a text or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormPart {
    /// Name of the form field.
    pub field: String,
    /// Name of the file; `None` for a text.
    pub file_name: Option<String>,
    /// Content type, if the part names one.
    pub mime: Option<String>,
    /// The content.
    pub bytes: Bytes,
}

/// Returns the boundary of a multipart content type.
#[must_use]
pub fn boundary(content_type: &str) -> Option<&str> {
    let parameters = content_type.strip_prefix("multipart/form-data")?;
    let boundary = parameters
        .split(';')
        .find_map(|parameter| parameter.trim().strip_prefix("boundary="))?;
    Some(boundary.trim_matches('"'))
}

/// Returns the parts of a body. The list ends where the body is malformed.
#[must_use]
pub fn parts(body: &Bytes, boundary: &str) -> Vec<FormPart> {
    let delimiter = format!("\r\n--{boundary}");
    let opening = format!("--{boundary}");
    let mut parts = Vec::new();
    let Some(start) = find(body, opening.as_bytes()) else {
        return parts;
    };
    let mut rest = body.slice(start + opening.len()..);
    while rest.starts_with(b"\r\n") {
        let Some(end) = find(&rest, delimiter.as_bytes()) else {
            break;
        };
        let Some(head_end) = find(&rest, b"\r\n\r\n").filter(|head_end| *head_end < end) else {
            break;
        };
        let head = String::from_utf8_lossy(&rest.slice(..head_end)).into_owned();
        // In a part without content the delimiter comes directly after the head.
        let content = rest.slice((head_end + 4).min(end)..end);
        parts.extend(part(&head, content));
        rest = rest.slice(end + delimiter.len()..);
    }
    parts
}

fn part(head: &str, bytes: Bytes) -> Option<FormPart> {
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(field, _)| field.trim().eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    };
    let disposition = header("content-disposition")?;
    Some(FormPart {
        field: parameter(disposition, "name")?,
        file_name: parameter(disposition, "filename"),
        mime: header("content-type").map(str::to_owned),
        bytes,
    })
}

/// Returns a quoted parameter, with `\"` and `%22` decoded as browsers encode them.
fn parameter(disposition: &str, name: &str) -> Option<String> {
    let parameters = disposition.split("; ").skip(1);
    let value = parameters
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(key, _)| key.trim() == name)?
        .1;
    let value = value.trim().trim_matches('"');
    Some(value.replace("\\\"", "\"").replace("%22", "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_texts_files_and_empty_parts() {
        let body = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n2\r\n--B\r\n\
            Content-Disposition: form-data; name=\"f\"; filename=\"x y.png\"\r\nContent-Type: image/png\r\n\r\n\
            \u{0}\r\n\r\n\r\n--B\r\nContent-Disposition: form-data; name=\"e\"\r\n\r\n\r\n--B--\r\n";
        let found: Vec<_> = parts(&Bytes::from(body), "B")
            .into_iter()
            .map(|part| (part.field, part.file_name, part.mime, part.bytes.to_vec()))
            .collect();
        let expected = vec![
            ("a".to_owned(), None, None, b"1\r\n2".to_vec()),
            (
                "f".to_owned(),
                Some("x y.png".to_owned()),
                Some("image/png".to_owned()),
                b"\0\r\n\r\n".to_vec(),
            ),
            ("e".to_owned(), None, None, Vec::new()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn parses_boundaries() {
        assert_eq!(boundary("multipart/form-data; boundary=x-1"), Some("x-1"));
        assert_eq!(
            boundary("multipart/form-data; charset=utf-8; boundary=\"y\""),
            Some("y")
        );
        assert_eq!(boundary("text/plain"), None);
    }
}
