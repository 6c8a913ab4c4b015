//! Telegram, plain text and Markdown, and where text is cut.

use nanobot_channel::Dialect;

use super::super::render;
use super::{style, texts};

#[test]
fn markdown_becomes_telegram_html() {
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
        assert_eq!(
            texts(markdown, Dialect::TelegramHtml, 4000),
            [html],
            "{markdown}"
        );
    }
}

#[test]
fn plain_text_keeps_addresses_and_markdown_stays_itself() {
    let markdown = "# T\n**b** [site](https://e.org)";
    assert_eq!(
        texts(markdown, Dialect::Plain, 4000),
        ["T\n\nb site (https://e.org)"]
    );
    assert_eq!(texts(markdown, Dialect::Markdown, 4000), [markdown]);
    let html = render(markdown, style(Dialect::TelegramHtml, 4000));
    assert_eq!(
        html.first().map(|part| part.plain.as_str()),
        Some("T\n\nb site (https://e.org)")
    );
    assert_eq!(
        texts("  \n ", Dialect::TelegramHtml, 4000),
        Vec::<String>::new()
    );
}

#[test]
fn a_cut_prefers_blocks_then_lines_then_sentences_then_words() {
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
        assert_eq!(texts(text, Dialect::Plain, limit), parts, "{text}");
    }
}

#[test]
fn a_heading_stays_with_what_it_heads() {
    let parts = texts("some text here\n\n# Head\n\nbody text", Dialect::Plain, 24);
    assert_eq!(parts, ["some text here", "Head\n\nbody text"]);
}

#[test]
fn code_that_is_cut_is_closed_and_opened_again() {
    let markdown = "```py\n  aaaa\n    bbbb\ncccc\n```";
    let html = texts(markdown, Dialect::TelegramHtml, 16);
    assert_eq!(
        html,
        [
            "<pre><code class=\"language-py\">  aaaa\n    bbbb</code></pre>",
            "<pre><code class=\"language-py\">cccc</code></pre>"
        ]
    );
    assert_eq!(
        texts(markdown, Dialect::Markdown, 28),
        ["```py\n  aaaa\n    bbbb\n```", "```py\ncccc\n```"]
    );
}

#[test]
fn code_whose_letters_take_several_bytes_is_cut_between_them() {
    for code in ["中", "中文。", "a中\n文b", "👩‍👩‍👧‍👦\né"] {
        let markdown = format!("before **x** `y`\n```rust\n{code}\n```\nafter");
        for limit in 1..60 {
            for dialect in [
                Dialect::Markdown,
                Dialect::Plain,
                Dialect::Discord,
                Dialect::SlackMrkdwn,
            ] {
                let shown = texts(&markdown, dialect, limit).concat();
                for letter in code.chars().filter(|c| c.is_alphanumeric()) {
                    assert!(
                        shown.contains(letter),
                        "{markdown:?} {dialect:?} {limit}: {shown:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_mark_that_is_cut_stands_on_both_sides() {
    let parts = texts("**aaaa bbbb**", Dialect::TelegramHtml, 6);
    assert_eq!(parts, ["<b>aaaa</b>", "<b>bbbb</b>"]);
}
