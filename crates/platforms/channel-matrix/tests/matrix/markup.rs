//! Matrix' HTML.

use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_matrix::MatrixHtml;
use nanobot_testkit::conformance;
use nanobot_testkit::markup::html_text;
use nanobot_text::render;

const STYLE: TextStyle = TextStyle {
    format: Format::Markup(&MatrixHtml),
    measure: Measure::Bytes,
    limit: 16_000,
};

#[test]
fn markup_passes_the_conformance_suite() {
    let visible = |html: &str| html_text(&html.replace("<br>", "\n"));
    conformance::text_style(STYLE, visible).unwrap();
}

#[test]
fn markdown_is_rendered_for_matrix() {
    let table = [
        ("# Title\ntext", "<h1>Title</h1>text"),
        (
            "**b** _i_ ~~s~~ `c<`",
            "<strong>b</strong> <em>i</em> <del>s</del> <code>c&lt;</code>",
        ),
        (
            "[site](https://e.org/a?\"b)",
            "<a href=\"https://e.org/a?&quot;b\">site</a>",
        ),
        ("[x](javascript:alert)", "x (javascript:alert)"),
        ("<img src=x onerror=y>", "&lt;img src=x onerror=y&gt;"),
        (
            "```rust\nfn a() {}\n\nfn b() {}\n```",
            "<pre><code class=\"language-rust\">fn a() {}\n\nfn b() {}</code></pre>",
        ),
        ("> one\n> two", "<blockquote>one<br>two</blockquote>"),
        ("a\n\nb", "a<br><br>b"),
    ];
    for (markdown, expected) in table {
        let parts = render(markdown, STYLE).into_iter();
        let texts: Vec<String> = parts.map(|part| part.text).collect();
        assert_eq!(texts, [expected], "{markdown}");
    }
}

#[test]
fn only_known_tags_are_written() {
    let hostile = "<script>x</script> **<b onclick=1>** [a](https://x\"><script>) ```<pre>\n</pre>";
    let known = [
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "strong",
        "em",
        "del",
        "code",
        "pre",
        "a",
        "blockquote",
        "br",
    ];
    for part in render(hostile, STYLE) {
        for tag in part.text.split('<').skip(1) {
            let name: String = tag
                .trim_start_matches('/')
                .chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect();
            assert!(known.contains(&name.as_str()), "{tag}");
        }
    }
}
