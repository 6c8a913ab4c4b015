//! Slack's mrkdwn.

use anyhow::{Context as _, ensure};
use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_slack::Mrkdwn;
use nanobot_testkit::conformance;
use nanobot_testkit::markup::{entities, fences};
use nanobot_text::render;

use crate::reader::SlackReader;

fn style(limit: usize) -> TextStyle {
    TextStyle {
        format: Format::Markup(&Mrkdwn),
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

/// Returns what a reader sees, marks left as they are.
pub(crate) fn visible(mrkdwn: &str) -> anyhow::Result<String> {
    let (prose, code) = fences(mrkdwn)?;
    let mut text = entities(&code)?;
    for line in prose {
        let line = line.strip_prefix("> ").unwrap_or(line);
        let mut words = String::new();
        let mut rest = line;
        while let Some((before, found)) = rest.split_once('<') {
            words.push_str(before);
            let (link, after) = found
                .split_once('>')
                .with_context(|| format!("a link ends: {line:?}"))?;
            if link.starts_with(['@', '#']) {
                ensure!(!link.contains(|c: char| c.is_lowercase()), "{line:?}");
                words.push_str(link);
                rest = after;
                continue;
            }
            let (url, shown) = link.split_once('|').unwrap_or((link, link));
            ensure!(
                ["http://", "https://", "mailto:"]
                    .iter()
                    .any(|scheme| url.to_ascii_lowercase().starts_with(scheme)),
                "{line:?}"
            );
            words.push_str(shown);
            rest = after;
        }
        ensure!(!rest.contains('>'), "{line:?}");
        words.push_str(rest);
        text.push_str(&entities(&words)?);
    }
    Ok(text)
}

#[test]
fn markup_passes_the_conformance_suite() {
    conformance::text_style(style(39_000), visible).unwrap();
}

#[test]
fn random_markdown_is_displayed_as_intended() {
    conformance::looks(&Mrkdwn, &SlackReader).unwrap();
}

#[test]
fn markdown_is_rendered_as_mrkdwn() {
    let table = [
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("# Title **x**\ntext", "*Title x*\n\ntext"),
        ("**b** _i_ ~~s~~ `c<`", "*b* _i_ ~s~ `c&lt;`"),
        ("**bold _both_ `code`**", "*bold _both_ `code`*"),
        (
            "un**believ**able, **注意：**请",
            "un\u{200b}*believ*\u{200b}able, *注意：*\u{200b}请",
        ),
        ("**a\nb**", "*a*\n*b*"),
        (
            "[site](https://e.org/?a=1&b=x|y) **[b](https://e.org)**",
            "<https://e.org/?a=1&amp;b=x%7Cy|site> *<https://e.org|b>*",
        ),
        (
            "see https://e.org/a_b_c?x=1&y=2. ok",
            "see <https://e.org/a_b_c?x=1&amp;y=2>. ok",
        ),
        ("见https://e.org。好", "见<https://e.org>。好"),
        ("[file](notes.md)", "file (notes.md)"),
        (
            "```rust\nlet a = &b;\n```\nafter",
            "```\nlet a = &amp;b;\n```\n\nafter",
        ),
        ("````\na ``` b\n````", "```\na ``\u{200b}` b\n```"),
        ("`` a`b ``", "a`b"),
        (
            "> one\n> **two\n> three**\n\nfour",
            "> one\n> *two*\n> *three*\n\nfour",
        ),
        ("> a\n>\n> b", "> a\n> \n> b"),
        (
            "> a\n> ```\n> c\n> ```\n> b",
            "> a\n> \n```\nc\n```\n> \n> b",
        ),
        ("- a\n- b\n  - c\n\n9. d", "• a\n• b\n  • c\n\n9. d"),
        ("snake_case and 2 * 3 * 4", "snake_case and 2 * 3 * 4"),
        (
            "\\*not bold\\* and *\\.rs",
            "*\u{200b}not bold\u{200b}* and *\u{200b}.rs",
        ),
        ("\\> no quote", "\u{200b}&gt; no quote"),
        (
            "<@U1A> <#C1> <!channel> <@here>",
            "<@U1A> <#C1> &lt;!channel&gt; &lt;@here&gt;",
        ),
        (
            "| a | 数 |\n|---|--:|\n| 中文 | 1 |",
            "```\na     数\n────  ──\n中文   1\n```",
        ),
    ];
    for (markdown, mrkdwn) in table {
        assert_eq!(texts(markdown, 4000), [mrkdwn], "{markdown}");
    }
}

#[test]
fn markup_counts_towards_the_limit() {
    assert_eq!(texts("a & b & c", 9), ["a &amp;", "b &amp; c"]);
    assert_eq!(texts("> aaaa bbbb\n> cccc", 12), ["> aaaa bbbb", "> cccc"]);
}

#[test]
fn link_address_is_not_split() {
    assert_eq!(
        texts("words before https://e.org/a-path/that-goes-on", 44),
        ["words before", "<https://e.org/a-path/that-goes-on>"]
    );
}

#[test]
fn split_mention_is_escaped_as_text() {
    let parts = texts(&format!("<@U{}> x", "1".repeat(40)), 30);
    assert_eq!(parts.concat(), format!("&lt;@U{}&gt; x", "1".repeat(40)));
    assert_eq!(
        texts("hello you <@U123456>", 18),
        ["hello you", "<@U123456>"]
    );
}

#[test]
fn text_without_room_for_its_marks_is_still_escaped() {
    assert_eq!(texts("```\n&|\n```", 12), ["&amp;", "```\n|\n```"]);
}

#[test]
fn wide_table_is_written_row_by_row() {
    let wide = "w".repeat(90);
    let markdown = format!("| name | what it is |\n|---|---|\n| one | {wide} |\n| two | |\n\nend");
    assert_eq!(
        texts(&markdown, 4000),
        [format!(
            "*name*: one · *what it is*: {wide}\n*name*: two\n\nend"
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
