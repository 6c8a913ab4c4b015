//! The marks of WhatsApp.

use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_whatsapp::WhatsAppMarkup;
use nanobot_testkit::conformance;
use nanobot_text::render;

use crate::reader::{WhatsAppReader, read};

const STYLE: TextStyle = TextStyle {
    format: Format::Markup(&WhatsAppMarkup),
    measure: Measure::CodePoints,
    limit: 4096,
};

#[test]
fn markup_passes_the_conformance_suite() {
    let visible = |text: &str| Ok(read(text).into_iter().map(|(c, _)| c).collect());
    conformance::text_style(STYLE, visible).unwrap();
}

#[test]
fn random_markdown_is_displayed_as_intended() {
    conformance::looks(&WhatsAppMarkup, &WhatsAppReader).unwrap();
}

#[test]
fn markdown_is_rendered_for_whatsapp() {
    let table = [
        ("# Title **x**\ntext", "*Title x*\n\ntext"),
        ("**b** _i_ ~~s~~ `c*`", "*b* _i_ ~s~ `c*`"),
        ("**bold _both_ `code`**", "*bold _both_ `code`*"),
        (
            "un**believ**able, **注意：**请",
            "un\u{200b}*believ*\u{200b}able, *注意：*\u{200b}请",
        ),
        ("**a\nb**", "*a*\n*b*"),
        ("snake_case and 2 * 3", "snake_case and 2 * 3"),
        (
            "\\*not bold\\* and *\\.rs",
            "*\u{200b}not bold\u{200b}* and *\u{200b}.rs",
        ),
        ("\\> no quote", "\u{200b}> no quote"),
        ("[site](https://e.org/a_b_c)", "site (https://e.org/a_b_c)"),
        ("see https://e.org/_x_/y", "see https://e.org/_x_/y"),
        ("[file](notes.md)", "file (notes.md)"),
        (
            "```rust\nlet a = 1;\n```\nafter",
            "```\nlet a = 1;\n```\n\nafter",
        ),
        ("````\na ``` b\n````", "```\na ``\u{200b}` b\n```"),
        ("`` a`b ``", "a`b"),
        ("> one\n> two\n\nthree", "> one\n> two\n\nthree"),
        ("- a\n- b\n  - c\n\n9. d", "- a\n- b\n  - c\n\n9. d"),
        ("<@123> <b>x</b>", "<@123> <b>x</b>"),
    ];
    for (markdown, expected) in table {
        let parts = render(markdown, STYLE).into_iter();
        let texts: Vec<String> = parts.map(|part| part.text).collect();
        assert_eq!(texts, [expected], "{markdown}");
    }
}

#[test]
fn full_parts_fit() {
    for text in ["語", "🙂", "*a ", "_x_ ", "a\n", "- x\n", "`*`", "> q\n"] {
        for part in render(&text.repeat(5000), STYLE) {
            let length = part.text.chars().count();
            assert!(length <= 4096, "{length}: {text:?}");
        }
    }
}
