//! Resolves `${VARIABLE}` inside text.
//!
//! Only an identifier between the braces is a reference; any other text with a dollar sign is left
//! alone. The value of a variable is not expanded again. A nested reference is an error, because
//! the value of the inner one would be only part of a name.

/// The first reference of a text that cannot be resolved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadReference {
    /// The variable is not set.
    Unset(String),
    /// Another reference is inside its braces.
    Nested(String),
}

/// Replaces the references in a text.
pub(crate) fn substitute<'a>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, BadReference> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) if is_identifier(name) => {
                result.push_str(lookup(name).ok_or_else(|| BadReference::Unset(name.to_owned()))?);
                rest = tail;
            }
            Some((name, _)) if is_nested(name) => {
                return Err(BadReference::Nested(format!("${{{name}}}")));
            }
            _ => {
                result.push_str("${");
                rest = after;
            }
        }
    }
    result.push_str(rest);
    Ok(result)
}

/// Returns the names of the variables that a text refers to, in order.
pub(crate) fn references(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split("${").skip(1);
    pieces.filter_map(|piece| {
        piece
            .split_once('}')
            .map(|(name, _)| name)
            .filter(|name| is_identifier(name))
    })
}

/// Returns `true` if the text is a single reference and so contains no secret of its own.
pub(crate) fn is_sole_reference(text: &str) -> bool {
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(is_identifier)
}

/// Returns `true` if another reference begins inside the name of a variable.
fn is_nested(name: &str) -> bool {
    name.split_once("${")
        .is_some_and(|(outer, _)| outer.is_empty() || is_identifier(outer))
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_identifiers_between_braces_are_references() {
        let lookup = |name: &str| match name {
            "A" => Some("1"),
            "B_2" => Some("${A}"),
            _ => None,
        };
        let table = [
            ("", Ok::<_, BadReference>("")),
            ("${A}", Ok("1")),
            ("x${A}y${A}", Ok("x1y1")),
            ("${B_2}", Ok("${A}")),
            ("${}", Ok("${}")),
            ("$A ${A", Ok("$A ${A")),
            ("${1A} ${a-b}", Ok("${1A} ${a-b}")),
            ("echo ${ x ${A}", Ok("echo ${ x 1")),
        ];
        for (text, expected) in table {
            assert_eq!(
                substitute(text, lookup),
                expected.map(str::to_owned),
                "{text}"
            );
        }
        assert_eq!(
            substitute("ß${NONE}", lookup),
            Err(BadReference::Unset("NONE".to_owned()))
        );
        for nested in ["${${A}}", "${A${A}}", "${${${A}}}"] {
            let refusal = substitute(&format!("x{nested}"), lookup).unwrap_err();
            assert!(
                matches!(refusal, BadReference::Nested(_)),
                "{nested}: {refusal:?}"
            );
        }
    }
}
