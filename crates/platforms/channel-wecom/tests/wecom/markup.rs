//! The Markdown of AI bots.

use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_wecom::WeComMarkdown;
use nanobot_testkit::conformance;
use nanobot_text::render;

use crate::reader::{BotReader, read};

const STYLE: TextStyle = TextStyle {
    format: Format::Markup(&WeComMarkdown),
    measure: Measure::Bytes,
    limit: 20_480,
};

#[test]
fn markup_passes_the_conformance_suite() {
    let visible = |text: &str| Ok(read(text).into_iter().map(|(c, _)| c).collect());
    conformance::text_style(STYLE, visible).unwrap();
}

#[test]
fn random_markdown_is_displayed_as_intended() {
    conformance::looks(&WeComMarkdown, &BotReader).unwrap();
}

#[test]
fn markdown_is_rendered_for_bots() {
    let table = [
        ("# Title **x**\ntext", "# Title x\n\ntext"),
        ("**b** _i_ ~~s~~ `c*`", "**b** *i* s `c*`"),
        ("un**believ**able", "un**believ**able"),
        ("**注意：**请", "**注意：**\u{200a}请"),
        ("5 * 3, a_b, \\_c\\_", "5 \\* 3, a_b, \\_c\\_"),
        ("\\# a\n\n\\- b\n\n\\> c", "\\# a\n\n\\- b\n\n\\> c"),
        ("1986\\. a", "1986\\. a"),
        ("<font color=red>x</font>", "\\<font color=red>x\\</font>"),
        (
            "![cat](https://x.test/c.png?q=secret)",
            "[cat](https://x.test/c.png?q=secret)",
        ),
        (
            "[site](https://e.org/(a)?b=1&c=_d_)",
            "[site](https://e.org/%28a%29?b=1&amp;c=%5Fd%5F)",
        ),
        ("[file](notes.md)", "file (notes.md)"),
        ("```rust\nfn a() {}\nb\n```", "```rust\nfn a() {}\nb\n```"),
        ("> one\n> two", "> one  \n> two"),
        ("- a\n- b\n  - c\n\n9. d", "- a  \n- b  \n  - c\n\n9. d"),
        ("one  \ntwo", "one  \ntwo"),
    ];
    for (markdown, expected) in table {
        let parts = render(markdown, STYLE).into_iter();
        let texts: Vec<String> = parts.map(|part| part.text).collect();
        assert_eq!(texts, [expected], "{markdown}");
    }
}

#[test]
fn full_parts_fit_in_bytes() {
    for text in ["語", "🙂", "*a ", "\"\\", "a\n", "- x\n", "`*`"] {
        for part in render(&text.repeat(20_000), STYLE) {
            assert!(part.text.len() <= 20_480, "{}: {text:?}", part.text.len());
        }
    }
}
