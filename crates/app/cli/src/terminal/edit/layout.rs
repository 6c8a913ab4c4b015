//! The rows that the edited text takes on the screen.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::terminal::render::{is_break, is_space};

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

/// Lays out `prompt` and `text` in `width` columns, broken between words. Rows after the first are
/// indented by the width of the prompt, if that leaves room. At most `height` rows around the cursor
/// are returned.
pub(in crate::terminal) fn rows_of(
    prompt: &str,
    text: &str,
    cursor: usize,
    width: usize,
    height: usize,
) -> InputRows {
    let mut layout = RowLayout::new(prompt, width, cursor);
    let mut before = "";
    for (offset, grapheme) in text.grapheme_indices(true) {
        layout.push(offset, before, grapheme);
        before = grapheme;
    }
    layout.finish(text.len(), height)
}

/// Rows that are being filled.
struct RowLayout {
    /// Columns of the screen, at least 2.
    width: usize,
    /// Columns before the text of every row but the first.
    indent: usize,
    /// Position of the cursor in the text, and its place once it is known.
    cursor: usize,
    place: Option<(usize, usize)>,
    rows: Vec<String>,
    row: String,
    /// Columns of the current row.
    column: usize,
    last_break: Option<Break>,
}

/// A place in the current row where it may end.
#[derive(Clone, Copy)]
struct Break {
    /// Offset in the text.
    offset: usize,
    /// Length of the row up to here, in bytes.
    length: usize,
    /// Columns of the row up to here.
    column: usize,
}

impl RowLayout {
    fn new(prompt: &str, width: usize, cursor: usize) -> Self {
        let (width, indent) = (width.max(2), prompt.width());
        Self {
            width,
            indent: if indent * 2 > width { 0 } else { indent },
            cursor,
            place: None,
            rows: Vec::new(),
            row: prompt.to_owned(),
            column: indent,
            last_break: None,
        }
    }

    fn push(&mut self, offset: usize, before: &str, grapheme: &str) {
        if matches!(grapheme, "\n" | "\r\n") {
            self.note_cursor(offset);
            self.end_row();
            return;
        }
        let shown = shown(grapheme, self.column - self.column.min(self.indent));
        let needed = shown.width();
        if is_space(grapheme) {
            self.note_cursor(offset);
            // Spaces at the end of a full row are not shown; the cursor stays at its end.
            if self.column + needed < self.width {
                self.row.push_str(&shown);
                self.column += needed;
            }
            return;
        }
        if is_space(before) || is_break(before, grapheme) {
            self.last_break = Some(Break {
                offset,
                length: self.row.len(),
                column: self.column,
            });
        }
        // The cursor after the last column would be on the next row.
        while self.column + needed > self.width - 1 && self.column > self.indent {
            self.break_row();
        }
        self.note_cursor(offset);
        self.row.push_str(&shown);
        self.column += needed;
    }

    /// Ends the current row before its last word, or here if it has one word only.
    fn break_row(&mut self) {
        let place = self.last_break.take();
        let Some(place) = place.filter(|place| place.column > self.indent) else {
            self.end_row();
            return;
        };
        let word = self.row.split_off(place.length);
        let columns = self.column - place.column;
        let number = self.rows.len();
        self.end_row();
        self.row.push_str(&word);
        self.column += columns;
        if let Some((row, column)) = &mut self.place
            && *row == number
            && self.cursor >= place.offset
        {
            *row += 1;
            *column = self.indent + column.saturating_sub(place.column);
        }
    }

    fn end_row(&mut self) {
        let next = " ".repeat(self.indent);
        self.rows.push(std::mem::replace(&mut self.row, next));
        self.column = self.indent;
        self.last_break = None;
    }

    fn note_cursor(&mut self, offset: usize) {
        if offset == self.cursor {
            self.place = Some((self.rows.len(), self.column));
        }
    }

    /// Returns at most `height` rows around the cursor.
    fn finish(mut self, end: usize, height: usize) -> InputRows {
        if self.cursor >= end {
            self.place = Some((self.rows.len(), self.column));
        }
        let (row, column) = self.place.unwrap_or((0, self.column));
        self.rows.push(self.row);
        let height = height.max(1);
        let first = (row + 1).saturating_sub(height);
        InputRows {
            rows: self.rows.into_iter().skip(first).take(height).collect(),
            cursor: (row - first, column.min(self.width - 1)),
        }
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
    fn rows_break_between_words() {
        let rows = |text: &str, width| laid_out(text, 0, width, 9).0;
        for (text, width, expected) in [
            ("one two three", 10, &["> one two ", "  three"][..]),
            ("one two", 10, &["> one two"]),
            ("one  two   x", 8, &["> one  ", "  two   ", "  x"]),
            ("a longword b", 7, &["> a ", "  long", "  word", "  b"]),
            ("  word", 7, &[">   ", "  word"]),
            ("word 你好，世界。", 13, &["> word 你", "  好，世界。"]),
            ("say 👩‍👩‍👧 👩‍👩‍👧", 9, &["> say 👩‍👩‍👧", "  👩‍👩‍👧"]),
            ("a\tb cd", 10, &["> a   b ", "  cd"]),
            ("one\ntwo three", 9, &["> one", "  two ", "  three"]),
        ] {
            let found: Vec<String> = rows(text, width);
            let found: Vec<&str> = found.iter().map(|row| row.trim_end()).collect();
            let expected: Vec<&str> = expected.iter().map(|row| row.trim_end()).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    /// The cursor is before its character in the rows, wherever it is.
    #[test]
    fn cursor_follows_its_word_to_the_next_row() {
        let text = "one 二三 👩‍👩‍👧 longerword e\u{301}nd";
        for width in 4..30 {
            for (offset, grapheme) in text.grapheme_indices(true) {
                let (rows, (row, column)) = laid_out(text, offset, width, usize::MAX);
                assert!(column < width, "{width}");
                if grapheme == " " {
                    continue;
                }
                let mut at = 0;
                let found = rows[row].graphemes(true).find(|found| {
                    let begin = at;
                    at += found.width();
                    begin == column
                });
                assert_eq!(found, Some(grapheme), "{width} {offset} {rows:?}");
            }
            let (rows, cursor) = laid_out(text, text.len(), width, usize::MAX);
            let last = rows.len() - 1;
            assert_eq!(cursor, (last, rows[last].width()), "{width}");
            assert!(
                rows.iter().all(|row| row.width() <= width),
                "{width} {rows:?}"
            );
            let shown: String = rows.concat().replace([' ', '>'], "");
            assert_eq!(shown, text.replace(' ', ""), "{width}");
        }
    }

    #[test]
    fn spaces_at_the_end_of_a_row_keep_the_cursor_on_it() {
        assert_eq!(laid_out("one", 3, 6, 9).1, (0, 5));
        assert_eq!(
            laid_out("one ", 4, 6, 9),
            (vec!["> one".to_owned()], (0, 5))
        );
        assert_eq!(
            laid_out("one   ", 6, 6, 9),
            (vec!["> one".to_owned()], (0, 5))
        );
        let rows = vec!["> one".to_owned(), "  t".to_owned()];
        assert_eq!(laid_out("one   t", 7, 6, 9), (rows, (1, 3)));
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
