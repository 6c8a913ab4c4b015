//! Plain text and unchanged Markdown, and where a text is split.

use nanobot_markup::{Format, Measure, PlainText, TextStyle};
use nanobot_testkit::conformance;
use nanobot_text::render;

const PLAIN: Format = Format::Markup(&PlainText);

fn style(format: Format, limit: usize) -> TextStyle {
    TextStyle {
        format,
        measure: Measure::Utf16,
        limit,
    }
}

fn texts(markdown: &str, format: Format, limit: usize) -> Vec<String> {
    render(markdown, style(format, limit))
        .into_iter()
        .map(|part| part.text)
        .collect()
}

#[test]
fn plain_text_and_markdown_pass_the_text_style_suite() {
    for format in [PLAIN, Format::Markdown] {
        conformance::text_style(style(format, 4000), |text| Ok(text.to_owned())).unwrap();
    }
}

#[test]
fn plain_text_keeps_addresses_and_markdown_is_unchanged() {
    let markdown = "# T\n**b** [site](https://e.org)";
    assert_eq!(
        texts(markdown, PLAIN, 4000),
        ["T\n\nb site (https://e.org)"]
    );
    assert_eq!(texts(markdown, Format::Markdown, 4000), [markdown]);
    assert_eq!(texts("  \n ", PLAIN, 4000), Vec::<String>::new());
}

#[test]
fn split_prefers_blocks_lines_sentences_then_words() {
    let table: [(&str, usize, &[&str]); 7] = [
        (
            "aaaa bbbb\n\ncccc\n\ndddd eeee",
            18,
            &["aaaa bbbb\n\ncccc", "dddd eeee"],
        ),
        ("aaaa\nbbbb\ncccc", 10, &["aaaa\nbbbb", "cccc"]),
        (
            "One is here. Two is there.",
            20,
            &["One is here.", "Two is there."],
        ),
        (
            "第一句在这里。第二句在那里。",
            10,
            &["第一句在这里。", "第二句在那里。"],
        ),
        ("alpha, beta gamma", 12, &["alpha, beta", "gamma"]),
        ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
        ("👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 12, &["👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"]),
    ];
    for (text, limit, parts) in table {
        assert_eq!(texts(text, PLAIN, limit), parts, "{text}");
    }
}

#[test]
fn heading_stays_with_its_body() {
    let parts = texts("some text here\n\n# Head\n\nbody text", PLAIN, 24);
    assert_eq!(parts, ["some text here", "Head\n\nbody text"]);
}

#[test]
fn split_code_fence_is_closed_and_reopened() {
    let markdown = "```py\n  aaaa\n    bbbb\ncccc\n```";
    assert_eq!(
        texts(markdown, Format::Markdown, 28),
        ["```py\n  aaaa\n    bbbb\n```", "```py\ncccc\n```"]
    );
}

#[test]
fn multibyte_code_is_split_between_characters() {
    for code in ["中", "中文。", "a中\n文b", "👩‍👩‍👧‍👦\né"] {
        let markdown = format!("before **x** `y`\n```rust\n{code}\n```\nafter");
        for limit in 1..60 {
            for format in [Format::Markdown, PLAIN] {
                let shown = texts(&markdown, format, limit).concat();
                for letter in code.chars().filter(|c| c.is_alphanumeric()) {
                    assert!(shown.contains(letter), "{markdown:?} {limit}: {shown:?}");
                }
            }
        }
    }
}

#[test]
fn address_is_not_split() {
    assert_eq!(
        texts("words before https://e.org/a-path/that-goes-on", PLAIN, 44),
        ["words before", "https://e.org/a-path/that-goes-on"]
    );
}

#[test]
fn wide_table_is_written_as_named_rows() {
    let wide = "w".repeat(90);
    let markdown = format!("| name | what it is |\n|---|---|\n| one | {wide} |\n| two | |\n\nend");
    assert_eq!(
        texts(&markdown, PLAIN, 4000),
        [format!("name: one · what it is: {wide}\nname: two\n\nend")]
    );
}

#[test]
fn too_deeply_nested_markers_are_shown_literally() {
    let text = |markdown: &str| texts(markdown, PLAIN, 4000);
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
