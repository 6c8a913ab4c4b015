//! The change of a file as a unified diff, for people who watch a turn.

use std::time::Duration;

use similar::TextDiff;

/// Maximum length of a text that is compared, in bytes.
const MAX_COMPARED: usize = 256 << 10;

/// Maximum length of a diff, in characters.
const MAX_SHOWN: usize = 8_000;

/// Time limit of a comparison, which takes quadratic time in the worst case. Beyond it the diff is
/// coarser, but still correct.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// Compares two texts. Returns `None` if they are equal, or too long to compare.
pub(super) fn unified_change(before: &str, after: &str) -> Option<String> {
    if before == after || before.len().max(after.len()) > MAX_COMPARED {
        return None;
    }
    let diff = TextDiff::configure()
        .timeout(TIME_LIMIT)
        .diff_lines(before, after);
    let text = diff
        .unified_diff()
        .context_radius(2)
        .missing_newline_hint(false)
        .to_string();
    if text.chars().count() <= MAX_SHOWN {
        return Some(text);
    }
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    Some(format!("{shown}\n… and more\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_has_two_lines_of_context() {
        let before = "1\n2\n3\n4\n5\n6\n7\n";
        let change = unified_change(before, &before.replace('4', "four")).unwrap();
        assert_eq!(change, "@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+four\n 5\n 6\n");
        assert_eq!(
            unified_change("", "new\n").unwrap(),
            "@@ -0,0 +1 @@\n+new\n"
        );
    }

    #[test]
    fn equal_and_long_texts_have_no_change() {
        assert_eq!(unified_change("a\n", "a\n"), None);
        let long = "x".repeat(MAX_COMPARED + 1);
        assert_eq!(unified_change("", &long), None);
    }

    #[test]
    fn hostile_texts_give_a_bounded_change() {
        let before: String = (0..20_000).map(|line| format!("{}\n", line % 7)).collect();
        let after: String = (0..20_000).map(|line| format!("{}\n", line % 11)).collect();
        let change = unified_change(&before, &after).unwrap();
        assert!(change.chars().count() < MAX_SHOWN + 100);
    }
}
