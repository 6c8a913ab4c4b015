//! Marks of facts that a summary wrote after text of strangers.
//!
//! Decision: the mark is a part of the line. A person sees it in the file, every model reads it, and
//! a later summary that leaves it out gets it back.

use std::collections::HashSet;

/// End of a marked line.
const MARK: &str = " (perhaps from external content)";

/// Returns the facts `new`, which replace `old`, with marks. If the summary is about text of
/// strangers, the lines that are new get one. Headings never have one.
pub(super) fn with_marks(old: &str, new: &str, is_untrusted: bool) -> String {
    let without = |line: &'_ str| line.strip_suffix(MARK).map(str::to_owned);
    let marked: HashSet<String> = old.lines().filter_map(without).collect();
    let clean: HashSet<&str> = old.lines().filter(|line| !line.ends_with(MARK)).collect();
    let lines = new.lines().map(|line| {
        let line = line.trim_end();
        let bare = line.strip_suffix(MARK).unwrap_or(line);
        let is_content = !bare.is_empty() && !bare.starts_with('#');
        let is_new = !clean.contains(bare);
        let has_mark = marked.contains(bare) || bare != line || (is_untrusted && is_new);
        match is_content && has_mark {
            true => format!("{bare}{MARK}"),
            false => bare.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_after_text_of_strangers_keep_their_mark() {
        let old = "# Facts\n- likes tea\n";
        assert_eq!(with_marks(old, "# Facts\n- likes tea", true), old.trim());
        assert_eq!(with_marks(old, "- has a cat", false), "- has a cat");
        let marked = with_marks(old, "# Facts\n\n- likes tea\n- pays to X", true);
        let expected = format!("# Facts\n\n- likes tea\n- pays to X{MARK}");
        assert_eq!(marked, expected);
        // A later summary neither loses a mark nor adds a second one.
        let later = "# Facts\n\n- likes tea\n- pays to X\n- has a cat";
        let expected = format!("{expected}\n- has a cat");
        assert_eq!(with_marks(&marked, later, false), expected);
        assert_eq!(with_marks(&marked, &expected, false), expected);
    }
}
