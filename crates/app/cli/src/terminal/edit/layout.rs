//! The rows that the edited text takes on the screen.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Columns between two tab stops.
const TAB: usize = 4;

/// The edited text as rows of a screen.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::terminal) struct InputRows {
    /// The rows, each at most as wide as the screen.
    pub(in crate::terminal) rows: Vec<String>,
    /// Row and column of the cursor.
    pub(in crate::terminal) cursor: (usize, usize),
}

/// Lays out `prompt` and `text` in `width` columns. Rows after the first are indented by the width
/// of the prompt, if that leaves room. At most `height` rows around the cursor are returned.
pub(in crate::terminal) fn rows_of(
    prompt: &str,
    text: &str,
    cursor: usize,
    width: usize,
    height: usize,
) -> InputRows {
    let width = width.max(2);
    let indent = prompt.width();
    let indent = if indent * 2 > width { 0 } else { indent };
    let mut rows = vec![prompt.to_owned()];
    let (mut row, mut column) = (prompt.to_owned(), prompt.width());
    let mut place = (0, column);
    rows.clear();
    for (offset, grapheme) in text.grapheme_indices(true) {
        let shown = shown(grapheme, column - column.min(indent));
        let needed = shown.width();
        // The cursor after the last column would be on the next row.
        if grapheme != "\n" && column + needed > width - 1 && column > indent {
            rows.push(std::mem::replace(&mut row, " ".repeat(indent)));
            column = indent;
        }
        if offset == cursor {
            place = (rows.len(), column);
        }
        if matches!(grapheme, "\n" | "\r\n") {
            rows.push(std::mem::replace(&mut row, " ".repeat(indent)));
            column = indent;
            continue;
        }
        row.push_str(&shown);
        column += needed;
    }
    if cursor >= text.len() {
        place = (rows.len(), column);
    }
    rows.push(row);
    let height = height.max(1);
    let first = (place.0 + 1).saturating_sub(height);
    InputRows {
        rows: rows.into_iter().skip(first).take(height).collect(),
        cursor: (place.0 - first, place.1),
    }
}

/// Returns the visible form of a grapheme: tabs as spaces, hidden characters escaped.
fn shown(grapheme: &str, column: usize) -> String {
    if grapheme == "\t" {
        return " ".repeat(TAB - column % TAB);
    }
    let escaped = crate::output::sanitize(grapheme);
    if escaped.is_empty() && grapheme != "\n" && grapheme != "\r\n" {
        return "�".to_owned();
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(
        text: &str,
        cursor: usize,
        width: usize,
        height: usize,
    ) -> (Vec<String>, (usize, usize)) {
        let layout = rows_of("> ", text, cursor, width, height);
        (layout.rows, layout.cursor)
    }

    #[test]
    fn rows_break_at_the_width_and_keep_the_indent() {
        assert_eq!(
            laid_out("abcdef", 6, 6, 9),
            (vec!["> abc".to_owned(), "  def".to_owned()], (1, 5))
        );
        assert_eq!(
            laid_out("a\nb", 1, 10, 9),
            (vec!["> a".to_owned(), "  b".to_owned()], (0, 3))
        );
        assert_eq!(
            laid_out("a\n", 2, 10, 9),
            (vec!["> a".to_owned(), "  ".to_owned()], (1, 2))
        );
        assert_eq!(laid_out("", 0, 10, 9), (vec!["> ".to_owned()], (0, 2)));
    }

    #[test]
    fn wide_characters_are_not_divided() {
        assert_eq!(
            laid_out("日本語", 3, 7, 9),
            (vec!["> 日本".to_owned(), "  語".to_owned()], (0, 4))
        );
        let family = "👩‍👩‍👧";
        let (rows, cursor) = laid_out(family, family.len(), 10, 9);
        assert_eq!((rows.len(), cursor), (1, (0, 4)));
    }

    #[test]
    fn only_the_rows_around_the_cursor_are_shown() {
        let text = "1\n2\n3\n4\n5";
        let (rows, cursor) = laid_out(text, text.len(), 10, 2);
        assert_eq!(
            (rows, cursor),
            (vec!["  4".to_owned(), "  5".to_owned()], (1, 3))
        );
        let (rows, cursor) = laid_out(text, 0, 10, 2);
        assert_eq!(
            (rows, cursor),
            (vec!["> 1".to_owned(), "  2".to_owned()], (0, 2))
        );
    }

    #[test]
    fn control_characters_are_visible_and_harmless() {
        let (rows, _) = laid_out("a\tb\u{1b}[31m\u{7}", 0, 40, 9);
        assert_eq!(rows.len(), 1);
        assert!(rows.iter().all(|row| !row.contains('\u{1b}')), "{rows:?}");
        for width in 0..4 {
            laid_out("日本語 text", 3, width, 1);
        }
    }
}
