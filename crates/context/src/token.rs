//! A rough count of tokens, for budgets where no vendor has counted yet.

/// About how many tokens a text takes: one for each Chinese, Japanese or Korean character and one
/// for every four others. At least 1 for a text that is not empty.
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    // Whole conversations are counted before each call, and most of them are plain.
    if text.is_ascii() {
        return text.len().div_ceil(4);
    }
    let (wide, narrow) =
        text.chars().fold(
            (0_usize, 0_usize),
            |(wide, narrow), character| {
                if is_cjk(character) { (wide + 1, narrow) } else { (wide, narrow + 1) }
            },
        );
    wide + narrow.div_ceil(4)
}

fn is_cjk(character: char) -> bool {
    matches!(character,
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latin_is_quartered_and_cjk_counts_whole() {
        for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("你好", 2), ("안녕 hi", 3), ("🐈", 1)]
        {
            assert_eq!(estimate_tokens(text), tokens, "{text}");
        }
    }
}
