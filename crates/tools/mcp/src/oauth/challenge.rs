//! `WWW-Authenticate` headers of answers with status 401 (RFC 9110, section 11.6.1).

/// Returns a parameter of a challenge; the first one if several challenges have it.
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some((before, after)) = rest.split_once('=') {
        let key = before
            .rsplit(|c: char| c.is_whitespace() || c == ',')
            .next()
            .unwrap_or_default();
        let (value, tail) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                let (value, tail) = after.split_at_checked(end).unwrap_or((after, ""));
                (value.to_owned(), tail)
            }
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = tail;
    }
    None
}

/// Returns the text before the closing quotation mark without its escapes, and the rest.
fn unquote(quoted: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => value.extend(characters.next()),
            other => value.push(other),
        }
    }
    (value, characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_outside_of_quotation_marks() {
        let metadata = "resource_metadata";
        for (challenge, name, expected) in [
            (
                "Bearer resource_metadata=\"https://a/b?c=d\"",
                metadata,
                Some("https://a/b?c=d"),
            ),
            (
                "Bearer realm=\"x, resource_metadata=y\", Resource_Metadata=z",
                metadata,
                Some("z"),
            ),
            (
                "Basic realm=\"a\\\"b\", Bearer scope=\"r w\"",
                "scope",
                Some("r w"),
            ),
            (
                "Bearer scope=read, error=invalid_token",
                "error",
                Some("invalid_token"),
            ),
            ("Bearer", metadata, None),
            ("Bearer realm=\"never closed", metadata, None),
            ("Bearer realm=\"\\", metadata, None),
            ("=,=\"=\"", metadata, None),
        ] {
            assert_eq!(
                parameter(challenge, name).as_deref(),
                expected,
                "{challenge}"
            );
        }
    }
}
