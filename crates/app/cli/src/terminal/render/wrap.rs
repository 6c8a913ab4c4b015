//! Breaks a line into rows of a given number of columns.
//!
//! Decision: rows break after spaces, and between wide characters (Chinese, Japanese, Korean,
//! emoji) unless punctuation forbids it; never at the slashes and hyphens of an address or a
//! command. A word that is wider than a row is broken anywhere, but not within a grapheme cluster.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Characters that begin no row.
const CLOSING: &str = ",.;:!?)]}%、。，．；：！？）］｝」』】》〉〕…‥”’・ー々％";

/// Characters that end no row.
const OPENING: &str = "([{（［｛「『【《〈〔“‘";

/// Returns the number of columns of a line.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(|cluster| cluster.width()).sum()
}

/// Returns a line as its only row.
pub(super) fn unbroken(text: &str) -> Vec<Range<usize>> {
    std::iter::once(0..text.len()).collect()
}

/// Returns the rows of a line that is broken anywhere, at least one. A cluster that is wider than a
/// row has one of its own.
pub(super) fn by_columns(text: &str, columns: usize) -> Vec<Range<usize>> {
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (at, cluster) in text.grapheme_indices(true) {
        let width = cluster.width();
        if used + width > columns && at > start {
            rows.push(start..at);
            (start, used) = (at, 0);
        }
        used += width;
    }
    rows.push(start..text.len());
    rows
}

/// Returns the rows of a line that is broken between words, at least one, without the spaces at
/// their ends.
pub(super) fn by_words(text: &str, columns: usize) -> Vec<Range<usize>> {
    let mut wrapper = WordWrapper {
        columns,
        rows: Vec::new(),
        start: 0,
        used: 0,
        last_break: None,
    };
    let mut before = "";
    for (at, cluster) in text.grapheme_indices(true) {
        let width = cluster.width();
        if is_space(cluster) {
            wrapper.space(at, at + cluster.len(), width, is_space(before));
        } else {
            if is_break(before, cluster) {
                wrapper.allow_break(at, at);
            }
            wrapper.cluster(at, width);
        }
        before = cluster;
    }
    let last = text.get(wrapper.start..).unwrap_or_default().trim_end();
    let mut rows = wrapper.rows;
    if !last.is_empty() || rows.is_empty() {
        rows.push(wrapper.start..wrapper.start + last.len());
    }
    rows
}

/// A place where a row may end.
#[derive(Clone, Copy)]
struct Break {
    /// Offset of the end of the row.
    end: usize,
    /// Offset of the beginning of the next row.
    next: usize,
    /// Columns of the row up to `next`.
    used: usize,
}

/// Returns text whose lines are broken between words.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let mut rows = Vec::new();
    for line in text.lines() {
        let parts = by_words(line, columns);
        rows.extend(parts.into_iter().filter_map(|row| line.get(row)));
    }
    rows.join("\n")
}

/// Returns text whose lines are broken between words; rows that continue a line begin with `indent`.
/// A line that begins with spaces is continued under its first word, if that leaves half of the row.
pub(crate) fn hanging(text: &str, indent: &str, columns: usize) -> String {
    let mut rows = Vec::new();
    for line in text.lines() {
        let own = line.len() - line.trim_start_matches(' ').len();
        let own = if own * 2 > columns { 0 } else { own };
        let indent = format!("{}{indent}", " ".repeat(own));
        let indent = match width(&indent) * 2 > columns {
            true => "",
            false => indent.as_str(),
        };
        let parts = by_words(line, columns);
        let first = parts.into_iter().next().unwrap_or(0..0);
        rows.push(line.get(first.clone()).unwrap_or_default().to_owned());
        let rest = line.get(first.end..).unwrap_or_default().trim_start();
        if rest.is_empty() {
            continue;
        }
        let room = columns.saturating_sub(width(indent)).max(1);
        let parts = by_words(rest, room).into_iter();
        rows.extend(parts.filter_map(|row| Some(format!("{indent}{}", rest.get(row)?))));
    }
    rows.join("\n")
}

/// `true` if a line fits into a row.
pub(crate) fn fits(line: &str, columns: usize) -> bool {
    width(line) <= columns
}

/// Returns a row that ends with `…`, in at most `columns` columns.
pub(crate) fn ellipsized(row: &str, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    if room == 0 {
        return "…".repeat(columns);
    }
    let first = by_columns(row, room).into_iter().next().unwrap_or(0..0);
    let shown = row.get(first).unwrap_or_default();
    format!("{}…", shown.trim_end())
}

struct WordWrapper {
    columns: usize,
    rows: Vec<Range<usize>>,
    /// Offset of the current row.
    start: usize,
    /// Columns of the current row.
    used: usize,
    last_break: Option<Break>,
}

impl WordWrapper {
    fn space(&mut self, at: usize, next: usize, width: usize, follows_space: bool) {
        if at == self.start && !self.rows.is_empty() {
            self.start = next;
            return;
        }
        self.used += width;
        let end = match self.last_break {
            Some(last) if follows_space => last.end,
            _ => at,
        };
        self.allow_break(end, next);
    }

    fn allow_break(&mut self, end: usize, next: usize) {
        self.last_break = Some(Break {
            end,
            next,
            used: self.used,
        });
    }

    fn cluster(&mut self, at: usize, width: usize) {
        while self.used + width > self.columns && at > self.start {
            let place = self.last_break.take().unwrap_or(Break {
                end: at,
                next: at,
                used: self.used,
            });
            // A row of spaces only is not shown.
            if place.end > self.start {
                self.rows.push(self.start..place.end);
            }
            self.start = place.next;
            self.used -= place.used;
        }
        self.used += width;
    }
}

/// `true` for a cluster after which a row may end.
pub(crate) fn is_space(cluster: &str) -> bool {
    matches!(cluster, " " | "\t" | "\u{3000}")
}

/// `true` if a row may end between two clusters that are no spaces.
pub(crate) fn is_break(before: &str, after: &str) -> bool {
    let is_in = |set: &str, cluster: &str| cluster.chars().next().is_some_and(|c| set.contains(c));
    (before.width() > 1 || after.width() > 1)
        && !before.is_empty()
        && !is_space(before)
        && !is_in(OPENING, before)
        && !is_in(CLOSING, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_text_are_wrapped_separately() {
        assert_eq!(
            wrapped("one two three\n\n你好世界", 8),
            "one two\nthree\n\n你好世界"
        );
    }

    #[test]
    fn continued_rows_are_indented() {
        let table = [
            ("one two three", "  ", 9, "one two\n  three"),
            ("    one two three", "", 12, "    one two\n    three"),
            (
                "你好世界 👩\u{200d}💻 再见",
                "  ",
                8,
                "你好世界\n  👩\u{200d}💻 再\n  见",
            ),
            ("a\n\nb", "  ", 8, "a\n\nb"),
            ("longword", "  ", 3, "lon\ngwo\nrd"),
            ("", "  ", 3, ""),
        ];
        for (text, indent, columns, expected) in table {
            assert_eq!(hanging(text, indent, columns), expected, "{text:?}");
        }
    }

    #[test]
    fn shortened_row_is_not_wider_than_the_screen() {
        for (row, columns, expected) in [
            ("one two", 9, "one two…"),
            ("one two", 7, "one tw…"),
            ("one two", 5, "one…"),
            ("one two", 1, "…"),
            ("one two", 0, ""),
            ("你好👩\u{200d}💻", 6, "你好…"),
        ] {
            assert_eq!(ellipsized(row, columns), expected, "{row:?}");
        }
    }

    fn rows(text: &str, columns: usize, wrap: fn(&str, usize) -> Vec<Range<usize>>) -> Vec<&str> {
        wrap(text, columns)
            .into_iter()
            .map(|row| text.get(row).unwrap())
            .collect()
    }

    #[test]
    fn rows_end_between_words() {
        let table: [(&str, usize, &[&str]); 16] = [
            ("", 5, &[""]),
            ("   ", 2, &[""]),
            ("one two three", 7, &["one two", "three"]),
            ("one  two   three", 8, &["one  two", "three"]),
            ("one two   ", 3, &["one", "two"]),
            ("  one two", 5, &["  one", "two"]),
            ("     longer", 4, &["long", "er"]),
            ("a longword b", 4, &["a", "long", "word", "b"]),
            (
                "see https://a.example/b-c now",
                21,
                &["see", "https://a.example/b-c", "now"],
            ),
            ("你好世界", 5, &["你好", "世界"]),
            ("你好，世界。", 5, &["你", "好，", "世", "界。"]),
            ("他说「你好」", 6, &["他说", "「你", "好」"]),
            ("中文text中文", 6, &["中文", "text中", "文"]),
            (
                "👩\u{200d}💻👩\u{200d}💻👩\u{200d}💻",
                4,
                &["👩\u{200d}💻👩\u{200d}💻", "👩\u{200d}💻"],
            ),
            (
                "e\u{301}e\u{301}e\u{301}",
                2,
                &["e\u{301}e\u{301}", "e\u{301}"],
            ),
            ("你 好", 1, &["你", "好"]),
        ];
        for (text, columns, expected) in table {
            assert_eq!(
                rows(text, columns, by_words),
                expected,
                "{text:?} {columns}"
            );
        }
    }

    #[test]
    fn code_breaks_at_the_last_column() {
        assert_eq!(rows("a  bc d", 3, by_columns), ["a  ", "bc ", "d"]);
        assert_eq!(rows("a你好", 2, by_columns), ["a", "你", "好"]);
        assert_eq!(rows("", 3, by_columns), [""]);
        assert_eq!(rows("你", 1, by_columns), ["你"]);
    }
}
