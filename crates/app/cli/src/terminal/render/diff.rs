//! Renders a unified diff.

use super::markdown::TAB;
use super::style::{BOLD, CYAN, DIM, GREEN, Layout, PLAIN, RED, painted};
use super::text::StyledText;
use super::wrap;
use crate::output::sanitize;

/// Renders a unified diff in at most `most` rows, followed by the number of lines that are not shown
/// as a whole.
pub(crate) fn diff(text: &str, layout: Layout, most: usize) -> String {
    let mut out = String::new();
    let mut shown = 0;
    let mut hidden = 0_usize;
    let mut is_in_hunk = false;
    for line in text.lines() {
        if hidden > 0 || shown >= most {
            hidden += 1;
            continue;
        }
        is_in_hunk = line.starts_with("@@") || (is_in_hunk && !line.starts_with("diff "));
        let sign = sign_of(line).filter(|_| is_in_hunk);
        let line = styled_line(line, is_in_hunk);
        let rows = match layout.width {
            Some(width) => signed_rows(&line, sign, width.max(1)),
            None => vec![line],
        };
        if rows.len() > most - shown {
            hidden += 1;
        }
        for row in rows.into_iter().take(most - shown) {
            row.paint(0..row.as_str().len(), layout.palette, &mut out);
            out.push('\n');
            shown += 1;
        }
    }
    if hidden > 0 {
        let lines = if hidden == 1 { "line" } else { "lines" };
        let note = format!("… {hidden} more {lines}");
        out.push_str(&painted(&note, DIM, layout.palette));
        out.push('\n');
    }
    out
}

/// Returns the sign of a line within a hunk; `None` for a line that has none.
fn sign_of(line: &str) -> Option<&'static str> {
    match line.as_bytes().first()? {
        b'+' => Some("+"),
        b'-' => Some("-"),
        b' ' => Some(" "),
        _ => None,
    }
}

/// Returns the rows of a line. Each has its sign, if there is room for it.
fn signed_rows(line: &StyledText, sign: Option<&str>, width: usize) -> Vec<StyledText> {
    let sign = sign.filter(|_| width > 2).unwrap_or_default();
    let text = line.as_str().get(sign.len()..).unwrap_or_default();
    let rows = wrap::by_columns(text, width - sign.len()).into_iter();
    let signed = rows.map(|row| {
        let mut signed = StyledText::default();
        signed.push_part(line, 0..sign.len(), PLAIN);
        signed.push_part(line, row.start + sign.len()..row.end + sign.len(), PLAIN);
        signed
    });
    signed.collect()
}

/// Returns a line without control characters, in the style of its first character. Names of files
/// (`---`, `+++`) come before a hunk; within one, they are changes.
fn styled_line(line: &str, is_in_hunk: bool) -> StyledText {
    let ink = match line.as_bytes().first() {
        Some(b'@') if line.starts_with("@@") => CYAN,
        Some(b'+') if is_in_hunk => GREEN,
        Some(b'-') if is_in_hunk => RED,
        _ if is_in_hunk => PLAIN,
        _ => BOLD,
    };
    StyledText::of(&sanitize(line).replace('\t', TAB), ink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    const DIFF: &str =
        "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n same\n-old\u{1b}[2J\n+new\n--- sql comment\n";

    fn plain(width: Option<usize>) -> Layout {
        Layout {
            width,
            palette: Palette::Plain,
        }
    }

    #[test]
    fn changes_have_colours() {
        let shown = diff(DIFF, Layout::default(), 10);
        let expected = "\u{1b}[1m--- a/x\u{1b}[0m\n\u{1b}[1m+++ b/x\u{1b}[0m\n\u{1b}[36m@@ -1,3 +1,3 @@\u{1b}[0m\n same\n\u{1b}[31m-old[2J\u{1b}[0m\n\u{1b}[32m+new\u{1b}[0m\n\u{1b}[31m--- sql comment\u{1b}[0m\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn continued_rows_have_the_sign_of_their_line() {
        let text = "@@ -1 +1 @@\n-你好世界\n+ab 👩\u{200d}💻 cd\n same";
        for (width, expected) in [
            (
                5,
                "@@ -1\n +1 @\n@\n-你好\n-世界\n+ab \n+👩\u{200d}💻 c\n+d\n same\n",
            ),
            (
                2,
                "@@\n -\n1 \n+1\n @\n@\n-\n你\n好\n世\n界\n+a\nb \n👩\u{200d}💻\n c\nd\n s\nam\ne\n",
            ),
        ] {
            assert_eq!(diff(text, plain(Some(width)), 99), expected, "{width}");
        }
    }

    #[test]
    fn hidden_lines_are_counted() {
        for (width, most, expected) in [
            (None, 2, "--- a/x\n+++ b/x\n… 5 more lines\n"),
            (
                None,
                6,
                "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n same\n-old[2J\n+new\n… 1 more line\n",
            ),
            (Some(4), 3, "--- \na/x\n+++ \n… 6 more lines\n"),
            (None, 0, "… 7 more lines\n"),
        ] {
            assert_eq!(diff(DIFF, plain(width), most), expected, "{width:?} {most}");
        }
    }
}
