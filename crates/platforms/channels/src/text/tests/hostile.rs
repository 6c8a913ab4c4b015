//! Text that somebody wrote to hurt, or a model by accident, and so much of it that it takes minutes
//! or all memory as soon as anything is not linear.

use nanobot_channel::{Dialect, Measure, TextStyle};

use super::super::render;
use super::checks;

const SIZE: usize = 50_000;

/// Renders for every platform; every part has to fit and to be whole.
fn survive(markdown: &str) {
    let table = [
        (Dialect::Plain, Measure::CodePoints, 4000),
        (Dialect::Markdown, Measure::CodePoints, 4000),
        (Dialect::TelegramHtml, Measure::Utf16, 4000),
        (Dialect::Discord, Measure::CodePoints, 2000),
        (Dialect::SlackMrkdwn, Measure::CodePoints, 39_000),
        (Dialect::EmailHtml, Measure::Bytes, 1),
    ];
    for (dialect, measure, limit) in table {
        for part in render(
            markdown,
            TextStyle {
                dialect,
                measure,
                limit,
            },
        ) {
            let counted = match dialect {
                Dialect::EmailHtml => {
                    checks::html(&part.text);
                    continue;
                }
                Dialect::TelegramHtml => checks::html(&part.text),
                Dialect::Discord => {
                    checks::discord(&part.text);
                    part.text
                }
                Dialect::SlackMrkdwn => {
                    checks::slack(&part.text);
                    part.text
                }
                Dialect::Plain | Dialect::Markdown => part.text,
            };
            assert!(measure.of(&counted) <= limit, "{dialect:?}");
            assert!(measure.of(&part.plain) <= limit, "{dialect:?}");
        }
    }
}

/// As many of `unit` as make [`SIZE`] bytes.
fn fill(unit: &str) -> String {
    unit.repeat(SIZE / unit.len())
}

#[test]
fn a_megabyte() {
    survive(&"a".repeat(1_000_000));
    survive(&"Some **bold** words & `code`.\n\n".repeat(30_000));
}

#[test]
fn what_stands_too_deep_is_shown_as_it_is() {
    let text = |markdown: &str| super::texts(markdown, Dialect::Plain, 4000);
    assert_eq!(text(&format!("{}x", "> ".repeat(66))), ["> > x"]);
    assert_eq!(text(&"- ".repeat(66)), ["———"]);
    assert_eq!(
        text(&format!("{}x", "1. ".repeat(65)))
            .concat()
            .matches("1. ")
            .count(),
        65
    );
}

#[test]
fn one_line_that_never_ends() {
    for unit in [
        "a",
        "word ",
        "中文",
        "👩‍👩‍👧‍👦",
        "*",
        "*a ",
        "`",
        "_a_ ",
        "<",
        "&",
        "[",
        "\\",
        "https://e.org/a)",
        "://",
    ] {
        survive(&fill(unit));
    }
}

#[test]
fn what_is_not_seen() {
    survive(&format!("e{}", fill("\u{301}")));
    survive(&fill("\u{200b}\u{200d}\u{2060}"));
    survive(&fill("\u{202e}עברית \u{2066}abc\u{2069} "));
    survive(&fill("\0\r\n"));
}

#[test]
fn what_is_nested_for_ever() {
    survive(&format!("{}x\ny\nz", "> ".repeat(10_000)));
    survive(&format!(
        "{}x\n{}",
        "- ".repeat(10_000),
        fill("lazy line\n")
    ));
    survive(&format!(
        "{}x{}",
        "**_".repeat(10_000),
        "_**".repeat(10_000)
    ));
    survive(&format!(
        "{}x{}",
        "[".repeat(10_000),
        "](https://e.org)".repeat(10_000)
    ));
}

#[test]
fn lines_and_blocks_without_end() {
    let wide = "w".repeat(SIZE / 2);
    survive(&format!(
        "| {wide} |\n|---|\n{}",
        "| c |\n".repeat(SIZE / 12)
    ));
    for unit in [
        "a\n",
        "a\n\n",
        "# h\n",
        "- i\n",
        "> q\n\n",
        "```\nc\n```\n",
        "| a | b |\n|---|---|\n| c | d |\n\n",
        "**b** `c` [l](https://e.org)\n",
    ] {
        survive(&fill(unit));
    }
    survive(&format!("```\n{}\n```", fill("code line\n")));
    survive(&format!("> {}", fill("**quoted\nline** ")));
}
