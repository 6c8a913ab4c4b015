//! Text helpers shared by several tools.

/// `true` if `character` ends a line. Every Unicode line break counts, as in the Python program.
pub(crate) fn breaks_line(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r'
            | '\u{b}'
            | '\u{c}'
            | '\u{1c}'
            | '\u{1d}'
            | '\u{1e}'
            | '\u{85}'
            | '\u{2028}'
            | '\u{2029}'
    )
}

/// Splits `text` into lines with their terminators; `\r\n` is one terminator.
pub(crate) fn lines_with_ends(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len();
        let mut characters = rest.char_indices();
        while let Some((start, character)) = characters.next() {
            if breaks_line(character) {
                let newline = character == '\r' && characters.as_str().starts_with('\n');
                end = start + character.len_utf8() + usize::from(newline);
                break;
            }
        }
        let (line, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(line)
    })
}

/// Strips the terminator from `line`.
pub(crate) fn without_end(line: &str) -> &str {
    line.strip_suffix("\r\n")
        .or_else(|| line.strip_suffix(breaks_line))
        .unwrap_or(line)
}

/// Formats `number` with a comma between groups of three digits.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the first `limit` characters of `text`, and `true` if there were more.
pub(crate) fn clipped(text: &str, limit: usize) -> (&str, bool) {
    match text.char_indices().nth(limit) {
        Some((end, _)) => (text.get(..end).unwrap_or(text), true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unicode_line_break_ends_a_line() {
        let lines: Vec<&str> = lines_with_ends("a\r\nb\rc\u{2028}d\u{85}\n e").collect();
        assert_eq!(lines, ["a\r\n", "b\r", "c\u{2028}", "d\u{85}", "\n", " e"]);
        let bare: Vec<&str> = lines.into_iter().map(without_end).collect();
        assert_eq!(bare, ["a", "b", "c", "d", "", " e"]);
        assert_eq!(lines_with_ends("").count(), 0);
    }

    #[test]
    fn numbers_are_grouped_and_text_is_clipped_by_characters() {
        assert_eq!(
            [grouped(7), grouped(1234), grouped(1_234_567)],
            ["7", "1,234", "1,234,567"]
        );
        assert_eq!(clipped("咖啡☕", 2), ("咖啡", true));
        assert_eq!(clipped("咖啡", 2), ("咖啡", false));
    }
}
