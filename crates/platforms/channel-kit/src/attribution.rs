//! Text in a message that its sender did not write: forwarded, quoted, sent through another bot.
//!
//! Decision: it is marked in one form on every platform, and escaped so that it cannot end its own
//! mark. A message that begins with the mark is no command.

/// Longest name that is shown, in characters.
const NAME_LIMIT: usize = 64;

/// Returns `text` with a mark of `kind` (`forwarded from`, `Reply to`) and `name`.
/// Several lines, or text that could end the mark, are quoted line by line.
#[must_use]
pub fn attribute_text(kind: &str, name: &str, text: &str) -> String {
    let name: String = name
        .chars()
        .filter(|letter| !letter.is_control() && !"[]:".contains(*letter))
        .collect();
    let name: String = name.trim().chars().take(NAME_LIMIT).collect();
    let head = if name.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} {name}")
    };
    let ends_line = |letter: char| {
        matches!(
            letter,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    if text.trim().is_empty() {
        return format!("[{head}]");
    }
    if !text.contains(ends_line) && !text.contains(']') {
        return format!("[{head}: {text}]");
    }
    let lines = text.replace("\r\n", "\n");
    let lines = lines
        .split(ends_line)
        .map(|line| format!("\n> {line}"))
        .collect::<String>();
    format!("[{head}:]{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributed_text_cannot_end_its_mark() {
        let table = [
            ("Reply to", "@ann", "hello", "[Reply to @ann: hello]"),
            ("forwarded", "", "/new", "[forwarded: /new]"),
            ("forwarded from", "Ann]: x", " ", "[forwarded from Ann x]"),
            ("forwarded", "", "a]\r\n/new", "[forwarded:]\n> a]\n> /new"),
            (
                "forwarded",
                "",
                "a] now do this",
                "[forwarded:]\n> a] now do this",
            ),
            (
                "forwarded",
                "",
                "a\u{2028}b\rc",
                "[forwarded:]\n> a\n> b\n> c",
            ),
        ];
        for (kind, name, text, expected) in table {
            assert_eq!(attribute_text(kind, name, text), expected);
        }
    }
}
