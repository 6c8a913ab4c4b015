//! The Markdown of cards.

use nanobot_channel::{Block, Format, Measure, TextStyle};
use nanobot_channel_feishu::CardMarkdown;
use nanobot_testkit::conformance;
use nanobot_text::{RenderedPart, render};

use crate::reader::{CardReader, read};

fn style(limit: usize) -> TextStyle {
    TextStyle {
        format: Format::Markup(&CardMarkdown),
        measure: Measure::Bytes,
        limit,
    }
}

fn parts(markdown: &str, limit: usize) -> Vec<RenderedPart> {
    render(markdown, style(limit))
}

fn texts(markdown: &str) -> Vec<String> {
    let parts = parts(markdown, 4000).into_iter();
    parts.map(|part| part.text).collect()
}

#[test]
fn markup_passes_the_conformance_suite() {
    let visible = |text: &str| Ok(read(text).into_iter().map(|(c, _)| c).collect());
    conformance::text_style(style(28_000), visible).unwrap();
}

#[test]
fn random_markdown_is_displayed_as_intended() {
    conformance::looks(&CardMarkdown, &CardReader).unwrap();
}

#[test]
fn markdown_is_rendered_for_cards() {
    let table = [
        ("# Title **x**\ntext", "# Title x\n\ntext"),
        ("**b** _i_ ~~s~~ `c*`", "**b** *i* ~~s~~ `c*`"),
        ("un**believ**able", "un**believ**able"),
        ("**注意：**请", "**注意：**\u{200a}请"),
        ("5 * 3, a_b, \\_c\\_", "5 &#42; 3, a_b, &#95;c&#95;"),
        ("\\# a\n\n\\- b\n\n\\> c", "&#35; a\n\n&#45; b\n\n&#62; c"),
        ("1986\\. a", "1986&#46; a"),
        (
            "a | b < c & d &amp; &amp;lt;",
            "a &#124; b &#60; c & d & &#38;lt;",
        ),
        ("<at id=all></at>", "&#60;at id=all>&#60;/at>"),
        ("`<at id=all></at>`", "`<\u{200b}at id=all></at>`"),
        (
            "```\n<at id=all></at>\n```",
            "```\n<\u{200b}at id=all></at>\n```",
        ),
        ("<@ou_1a> <@U1> <#C1>", "&#60;@ou_1a> &#60;@U1> &#60;#C1>"),
        (
            "[site](https://e.org/(a)?b=1&c=_d_)",
            "[site](https://e.org/%28a%29?b=1&amp;c=%5Fd%5F)",
        ),
        (
            "see https://e.org/a?x=1&y=2 ok",
            "see https://e.org/a?x=1&y=2 ok",
        ),
        (
            "see https://e.org/a_*b ok",
            "see [https://e.org/a&#95;&#42;b](https://e.org/a%5F%2Ab) ok",
        ),
        ("[file](notes.md)", "file (notes.md)"),
        ("```rust\nfn a() {}\n```", "```rust\nfn a() {}\n```"),
        ("````\na ``` b\n````", "```\na ``\u{200b}` b\n```"),
        ("`` a`b ``", "``a`b``"),
        ("> one\n> two", "> one\n> two"),
        ("- a\n- b\n  - c\n\n9. d", "- a\n- b\n  - c\n\n9. d"),
    ];
    for (markdown, card) in table {
        assert_eq!(texts(markdown), [card], "{markdown}");
    }
}

#[test]
fn table_is_native_within_its_limits() {
    let has_table = |source: &str| {
        let parts = parts(source, 28_000);
        let mut blocks = parts.iter().flat_map(|part| &part.blocks);
        blocks.any(|block| matches!(block, Block::Table(_)))
    };
    let square = |rows: usize, columns: usize, cell: &str| {
        let row = |cell: &str| format!("|{}\n", format!("{cell}|").repeat(columns));
        row(cell) + &row("-") + &row(cell).repeat(rows - 1)
    };
    let table = [
        (square(50, 10, "x"), true),
        (square(51, 2, "x"), false),
        (square(2, 11, "x"), false),
        (square(50, 2, &"語".repeat(20)), true),
        (square(50, 2, &"語".repeat(21)), false),
    ];
    for (source, expected) in table {
        assert_eq!(has_table(&source), expected, "{} bytes", source.len());
    }
    let two = "|a|\n|-|\n|x|\n\n|b|\n|-|\n|y|";
    let counts: Vec<_> = parts(two, 28_000)
        .iter()
        .map(|part| part.blocks.len())
        .collect();
    assert_eq!(counts, [1, 1]);
}
