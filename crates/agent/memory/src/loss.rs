//! Checks whether a rewrite of the facts loses too much.
//!
//! Decision: only letters and digits are counted, because Markdown, indentation and line ends may
//! change without any loss. A small file may be rewritten freely: half of three lines is no
//! evidence.

/// Number of letters and digits up to which facts may be rewritten freely.
const SMALL: usize = 200;

/// `true` if `new` has less than half of the letters and digits of `old`. The caller refuses such a
/// rewrite and keeps the new text elsewhere.
#[must_use]
pub fn loses_too_much(old: &str, new: &str) -> bool {
    let before = informative(old);
    before > SMALL && informative(new) < before.div_ceil(2)
}

fn informative(text: &str) -> usize {
    text.chars()
        .filter(|character| character.is_alphanumeric())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losing_more_than_half_is_too_much() {
        let words = |count: usize| "word ".repeat(count);
        let table = [
            (String::new(), String::new(), false),
            (words(50), String::new(), false),
            (words(51), String::new(), true),
            (words(100), words(50), false),
            (words(100), words(49), true),
            (words(101), words(50), true),
            (words(100), "  \r\n- #\n".repeat(1000), true),
            (
                format!("{}{}", words(60), "\n".repeat(100_000)),
                words(60),
                false,
            ),
            ("记".repeat(300), "忆".repeat(150), false),
            ("记".repeat(300), "忆".repeat(149), true),
            (words(100), words(10_000), false),
        ];
        for (number, (old, new, expected)) in table.into_iter().enumerate() {
            assert_eq!(loses_too_much(&old, &new), expected, "case {number}");
        }
    }
}
