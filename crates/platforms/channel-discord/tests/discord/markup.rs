//! Discord's Markdown.

use anyhow::Context as _;
use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_discord::DiscordMarkdown;
use nanobot_testkit::conformance;
use nanobot_testkit::markup::fences;
use nanobot_text::render;

use crate::reader::DiscordReader;

fn style(limit: usize) -> TextStyle {
    TextStyle {
        format: Format::Markup(&DiscordMarkdown),
        measure: Measure::CodePoints,
        limit,
    }
}

fn texts(markdown: &str, limit: usize) -> Vec<String> {
    render(markdown, style(limit))
        .into_iter()
        .map(|part| part.text)
        .collect()
}

/// Returns what a reader sees of escaped text: escapes resolved, marks left as they are.
fn visible(markdown: &str) -> anyhow::Result<String> {
    let (prose, mut text) = fences(markdown)?;
    for line in prose {
        let mut letters = line.chars();
        while let Some(c) = letters.next() {
            text.push(if c == '\\' {
                letters
                    .next()
                    .with_context(|| format!("an escape ends: {line:?}"))?
            } else {
                c
            });
        }
    }
    Ok(text)
}

#[test]
fn markup_passes_the_conformance_suite() {
    conformance::text_style(style(2000), visible).unwrap();
}

#[test]
fn random_markdown_is_displayed_as_intended() {
    conformance::looks(&DiscordMarkdown, &DiscordReader).unwrap();
}

#[test]
fn markdown_is_rendered_for_discord() {
    let table = [
        ("# Title **x**\ntext", "# Title x\n\ntext"),
        ("##### Low", "**Low**"),
        ("**b** _i_ ~~s~~ `c*`", "**b** _i_ ~~s~~ `c*`"),
        ("2*3*4", "2*3*4"),
        ("***both***", "_**both**_"),
        (
            "5 * 3, \\*x\\*, a_b, \\_c\\_, \\`",
            "5 \\* 3, \\*x\\*, a_b, \\_c\\_, \\`",
        ),
        (
            "\\# no heading\n\n\\- no item\n\n\\> no quote",
            "\\# no heading\n\n\\- no item\n\n\\> no quote",
        ),
        ("||x|| a|b ~~~x", "\\|\\|x\\|\\| a|b \\~\\~\\~x"),
        (
            "<@1> <@!2> <#3> <:ok:4> <t:5:R> <@you> a<5 1 < 2",
            "<@1> <@!2> <#3> <:ok:4> <t:5:R> \\<@you> a<5 1 < 2",
        ),
        (
            "[site](https://e.org/(a))",
            "[site](<https://e.org/%28a%29>)",
        ),
        (
            "[https://e.org](https://e.com)",
            "https://e.org (<https://e.com>)",
        ),
        (
            "see https://e.org/a_b_*c, ok",
            "see https://e.org/a_b_*c, ok",
        ),
        ("[file](notes.md)", "file (notes.md)"),
        ("```rust\nfn a() {}\n```", "```rust\nfn a() {}\n```"),
        ("````\na ``` b\n````", "```\na ``\u{200b}` b\n```"),
        ("`` a`b ``", "``a`b``"),
        ("> one\n> two\n>\n> > three", "> one\n> two\n> \n> three"),
        ("- a\n- b\n  - c\n\n9. d", "- a\n- b\n  - c\n\n9. d"),
        (
            "| a | b |\n|---|---|\n| c | d |",
            "```\na  b\n─  ─\nc  d\n```",
        ),
    ];
    for (markdown, discord) in table {
        assert_eq!(texts(markdown, 2000), [discord], "{markdown}");
    }
}

#[test]
fn markup_counts_towards_the_limit() {
    assert_eq!(
        texts("```py\naaaaaaaa\nbbbbbbbb\ncccccccc\n```", 28),
        [
            "```py\naaaaaaaa\n```",
            "```py\nbbbbbbbb\n```",
            "```py\ncccccccc\n```"
        ]
    );
    assert_eq!(
        texts("**aaaa bbbb cccc**", 16),
        ["**aaaa bbbb**", "**cccc**"]
    );
}

#[test]
fn link_address_is_not_split() {
    assert_eq!(
        texts("words before https://e.org/a-path/that-goes-on", 44),
        ["words before", "https://e.org/a-path/that-goes-on"]
    );
}

#[test]
fn wide_table_is_written_row_by_row() {
    let wide = "w".repeat(90);
    let markdown = format!("| name | what it is |\n|---|---|\n| one | {wide} |\n| two | |\n\nend");
    assert_eq!(
        texts(&markdown, 4000),
        [format!(
            "**name**: one · **what it is**: {wide}\n**name**: two\n\nend"
        )]
    );
}

#[test]
fn multibyte_code_is_split_at_character_boundaries() {
    for code in ["中", "中文。", "a中\n文b", "👩‍👩‍👧‍👦\né"] {
        let markdown = format!("before **x** `y`\n```rust\n{code}\n```\nafter");
        for limit in 1..60 {
            let shown = texts(&markdown, limit).concat();
            for letter in code.chars().filter(|c| c.is_alphanumeric()) {
                assert!(shown.contains(letter), "{markdown:?} {limit}: {shown:?}");
            }
        }
    }
}
