//! `${VARIABLE}` inside text.
//!
//! Only an identifier between the braces is a reference; everything else that has a dollar sign
//! is text. What a variable holds is not looked at again.

/// The text with its references replaced; `Err` is the first variable that `lookup` lacks.
pub(crate) fn substitute<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) if is_identifier(name) => {
                result.push_str(lookup(name).ok_or_else(|| name.to_owned())?);
                rest = tail;
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

/// The variables that a text refers to, in order.
pub(crate) fn references(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split("${").skip(1);
    pieces.filter_map(|piece| piece.split_once('}').map(|(name, _)| name).filter(|name| is_identifier(name)))
}

/// Whether the text is one reference and nothing else, so that it holds no secret of its own.
pub(crate) fn is_sole_reference(text: &str) -> bool {
    text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(is_identifier)
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
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
            ("", Ok("")),
            ("${A}", Ok("1")),
            ("x${A}y${A}", Ok("x1y1")),
            ("${B_2}", Ok("${A}")),
            ("${}", Ok("${}")),
            ("$A ${A", Ok("$A ${A")),
            ("${1A} ${a-b}", Ok("${1A} ${a-b}")),
            ("${${A}}", Ok("${1}")),
            ("ß${NONE}", Err("NONE")),
        ];
        for (text, expected) in table {
            let result = substitute(text, lookup);
            assert_eq!(result.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
