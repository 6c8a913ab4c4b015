//! QQ's Markdown.

use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_qq::QqMarkdown;
use nanobot_testkit::conformance;
use nanobot_text::render;

use crate::reader::{QqReader, read};

const STYLE: TextStyle = TextStyle {
    format: Format::Markup(&QqMarkdown),
    measure: Measure::CodePoints,
    limit: 2000,
};

#[test]
fn markup_passes_the_conformance_suite() {
    let visible = |text: &str| Ok(read(text).into_iter().map(|(c, _)| c).collect());
    conformance::text_style(STYLE, visible).unwrap();
}

#[test]
fn random_markdown_is_displayed_as_intended() {
    conformance::looks(&QqMarkdown, &QqReader).unwrap();
}

#[test]
fn markdown_is_rendered_for_qq() {
    let table = [
        ("# Title **x**\ntext", "# Title x\n\ntext"),
        ("**b** _i_ ~~s~~ `c*`", "**b** *i* ~~s~~ `c*`"),
        ("5 * 3, a_b, [x], \\_c\\_", "5 \\* 3, a_b, [x], \\_c\\_"),
        ("\\# a\n\n\\- b", "\\# a\n\n\\- b"),
        (
            "see https://e.org/a_b_?x=1 ok",
            "see <https://e.org/a_b_?x=1> ok",
        ),
        ("[site](https://e.org/a)", "site (<https://e.org/a>)"),
        (
            "![cat](https://x.test/c.png?q=secret)",
            "cat (<https://x.test/c.png?q=secret>)",
        ),
        ("```rust\nfn a() {}\n```", "```rust\nfn a() {}\n```"),
        ("> one\n> two", "> one\n> two"),
        ("- a\n- b", "- a\n- b"),
    ];
    for (markdown, expected) in table {
        let parts = render(markdown, STYLE).into_iter();
        let texts: Vec<String> = parts.map(|part| part.text).collect();
        assert_eq!(texts, [expected], "{markdown}");
    }
}

#[test]
fn text_without_marks_is_plain() {
    let parts = render("**b** [site](https://e.org/a) `c`\n\n- a", STYLE);
    let plain: Vec<_> = parts.into_iter().map(|part| part.plain).collect();
    assert_eq!(plain, ["b site (https://e.org/a) c\n\n• a"]);
}
