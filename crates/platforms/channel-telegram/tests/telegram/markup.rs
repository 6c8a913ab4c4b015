//! Telegram's HTML.

use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_telegram::TelegramHtml;
use nanobot_testkit::conformance;
use nanobot_testkit::markup::html_text;
use nanobot_text::render;

fn style(limit: usize) -> TextStyle {
    TextStyle {
        format: Format::Markup(&TelegramHtml),
        measure: Measure::Utf16,
        limit,
    }
}

fn texts(markdown: &str, limit: usize) -> Vec<String> {
    render(markdown, style(limit))
        .into_iter()
        .map(|part| part.text)
        .collect()
}

#[test]
fn markup_passes_the_conformance_suite() {
    conformance::text_style(style(4000), html_text).unwrap();
}

#[test]
fn markdown_is_rendered_as_telegram_html() {
    let table = [
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("# Title\ntext", "<b>Title</b>\n\ntext"),
        (
            "**b** _i_ ~~s~~ `c<`",
            "<b>b</b> <i>i</i> <s>s</s> <code>c&lt;</code>",
        ),
        (
            "**注意：**请看*「这里」*吧",
            "<b>注意：</b>请看<i>「这里」</i>吧",
        ),
        (
            "他说**\"好\"**。2*3*4 `甲：**乙`",
            "他说<b>\"好\"</b>。2<i>3</i>4 <code>甲：**乙</code>",
        ),
        ("snake_case_name stays", "snake_case_name stays"),
        (
            "**bold _both_ `code`**",
            "<b>bold <i>both</i> <code>code</code></b>",
        ),
        (
            "[site](https://e.org/?a=1&b=\"2\")",
            "<a href=\"https://e.org/?a=1&amp;b=&quot;2&quot;\">site</a>",
        ),
        ("[file](notes.md)", "file (notes.md)"),
        ("<https://e.org>", "https://e.org"),
        ("![](https://e.org/a.png)", "https://e.org/a.png"),
        (
            "![a cat](https://e.org/a.png)",
            "<a href=\"https://e.org/a.png\">a cat</a>",
        ),
        (
            "```rust\nfn a() {}\n\n  b\n```",
            "<pre><code class=\"language-rust\">fn a() {}\n\n  b</code></pre>",
        ),
        (
            "```\n  a\n```\nafter",
            "<pre><code>  a</code></pre>\n\nafter",
        ),
        (
            "```\n**not bold**\n```",
            "<pre><code>**not bold**</code></pre>",
        ),
        (
            "> one\n> two\n>\n> > three",
            "<blockquote>one\ntwo\n\nthree</blockquote>",
        ),
        ("- a\n- b\n  - c\n- d", "• a\n• b\n  • c\n• d"),
        ("- a\n\n  more\n\n- b", "• a\n\n  more\n\n• b"),
        ("9. a\n10. b\n    - c", "9. a\n10. b\n    • c"),
        ("- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"),
        ("one\ntwo\\\nthree<br>four", "one\ntwo\nthree\nfour"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        (
            "<b>raw</b> &amp; <script>",
            "&lt;b&gt;raw&lt;/b&gt; &amp; &lt;script&gt;",
        ),
        (
            "| a | 数 |\n|---|--:|\n| 中文 | 1 |\n| **x** | 10 |",
            "<pre><code>a     数\n────  ──\n中文   1\nx     10</code></pre>",
        ),
        (
            "| a |\n|---|\n| [x](https://e.org) |",
            "<pre><code>a\n─────────────────\nx (https://e.org)</code></pre>",
        ),
    ];
    for (markdown, html) in table {
        assert_eq!(texts(markdown, 4000), [html], "{markdown}");
    }
}

#[test]
fn plain_text_equals_the_rendered_text() {
    let parts = render("# T\n**b** [site](https://e.org)", style(4000));
    assert_eq!(
        parts.first().map(|part| part.plain.as_str()),
        Some("T\n\nb site (https://e.org)")
    );
    assert_eq!(texts("  \n ", 4000), Vec::<String>::new());
}

#[test]
fn split_code_block_is_closed_and_reopened() {
    assert_eq!(
        texts("```py\n  aaaa\n    bbbb\ncccc\n```", 16),
        [
            "<pre><code class=\"language-py\">  aaaa\n    bbbb</code></pre>",
            "<pre><code class=\"language-py\">cccc</code></pre>"
        ]
    );
}

#[test]
fn split_formatting_is_repeated_on_both_sides() {
    let parts = texts("**aaaa bbbb**", 6);
    assert_eq!(parts, ["<b>aaaa</b>", "<b>bbbb</b>"]);
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
            "<b>name</b>: one · <b>what it is</b>: {wide}\n<b>name</b>: two\n\nend"
        )]
    );
}

#[test]
fn long_quote_is_expandable() {
    let quote = "> line\n".repeat(13);
    let lines = vec!["line"; 13].join("\n");
    assert_eq!(
        texts(&quote, 4000),
        [format!("<blockquote expandable>{lines}</blockquote>")]
    );
}
