//! Slack, Discord and mails.

use nanobot_channel::Dialect;

use super::super::render;
use super::{style, texts};

#[test]
fn markdown_becomes_mrkdwn() {
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
        assert_eq!(
            texts(markdown, Dialect::SlackMrkdwn, 4000),
            [mrkdwn],
            "{markdown}"
        );
    }
}

#[test]
fn markdown_becomes_what_discord_shows() {
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
        assert_eq!(
            texts(markdown, Dialect::Discord, 2000),
            [discord],
            "{markdown}"
        );
    }
}

#[test]
fn a_table_wider_than_a_screen_is_read_row_by_row() {
    let wide = "w".repeat(90);
    let markdown = format!("| name | what it is |\n|---|---|\n| one | {wide} |\n| two | |\n\nend");
    let table = [
        (
            Dialect::SlackMrkdwn,
            format!("*name*: one · *what it is*: {wide}\n*name*: two\n\nend"),
        ),
        (
            Dialect::Discord,
            format!("**name**: one · **what it is**: {wide}\n**name**: two\n\nend"),
        ),
        (
            Dialect::TelegramHtml,
            format!("<b>name</b>: one · <b>what it is</b>: {wide}\n<b>name</b>: two\n\nend"),
        ),
        (
            Dialect::Plain,
            format!("name: one · what it is: {wide}\nname: two\n\nend"),
        ),
    ];
    for (dialect, text) in table {
        assert_eq!(texts(&markdown, dialect, 4000), [text]);
    }
}

#[test]
fn markup_counts_where_the_platform_counts_it() {
    let cut = |dialect, markdown: &str, limit| texts(markdown, dialect, limit);
    assert_eq!(
        cut(Dialect::SlackMrkdwn, "a & b & c", 9),
        ["a &amp;", "b &amp; c"]
    );
    assert_eq!(
        cut(
            Dialect::Discord,
            "```py\naaaaaaaa\nbbbbbbbb\ncccccccc\n```",
            28
        ),
        [
            "```py\naaaaaaaa\n```",
            "```py\nbbbbbbbb\n```",
            "```py\ncccccccc\n```"
        ]
    );
    assert_eq!(
        cut(Dialect::Discord, "**aaaa bbbb cccc**", 16),
        ["**aaaa bbbb**", "**cccc**"]
    );
    assert_eq!(
        cut(Dialect::SlackMrkdwn, "> aaaa bbbb\n> cccc", 12),
        ["> aaaa bbbb", "> cccc"]
    );
}

#[test]
fn an_address_is_not_cut() {
    for dialect in [
        Dialect::Plain,
        Dialect::TelegramHtml,
        Dialect::Discord,
        Dialect::SlackMrkdwn,
    ] {
        let parts = texts(
            "words before https://e.org/a-path/that-goes-on",
            dialect,
            44,
        );
        let address = match dialect {
            Dialect::SlackMrkdwn => "<https://e.org/a-path/that-goes-on>",
            _ => "https://e.org/a-path/that-goes-on",
        };
        assert_eq!(parts, ["words before", address]);
    }
}

#[test]
fn a_person_that_is_cut_is_nobody() {
    let slack = texts(
        &format!("<@U{}> x", "1".repeat(40)),
        Dialect::SlackMrkdwn,
        30,
    );
    assert_eq!(slack.concat(), format!("&lt;@U{}&gt; x", "1".repeat(40)));
    assert_eq!(
        texts("hello you <@U123456>", Dialect::SlackMrkdwn, 18),
        ["hello you", "<@U123456>"]
    );
}

#[test]
fn a_long_quote_is_folded_on_telegram() {
    let quote = "> line\n".repeat(13);
    let lines = vec!["line"; 13].join("\n");
    assert_eq!(
        texts(&quote, Dialect::TelegramHtml, 4000),
        [format!("<blockquote expandable>{lines}</blockquote>")]
    );
}

#[test]
fn a_mail_has_lists_and_tables_and_a_plain_twin() {
    let markdown = "# T\n\nHi **you**, [site](https://e.org/?a=\"&b) [x](javascript:a) <b>\n\n> q\n>\n> r\n\n- a\n- b\n\n| a | n |\n|---|--:|\n| c | 1 |\n\n```sh\nls <x>\n```";
    let parts = render(markdown, style(Dialect::EmailHtml, 10));
    let [part] = parts.as_slice() else {
        panic!("one part")
    };
    let unstyled = part
        .text
        .split(" style=\"")
        .enumerate()
        .map(|(number, piece)| match number {
            0 => piece,
            _ => piece.split_once('"').expect("an attribute ends").1,
        });
    assert_eq!(
        unstyled.collect::<String>(),
        "<div>\n<h1>T</h1>\n<p>Hi <strong>you</strong>, <a href=\"https://e.org/?a=&quot;&amp;b\">site</a> \
         x (javascript:a) &lt;b&gt;</p>\n<blockquote>\n<p>q</p>\n<p>r</p>\n</blockquote>\n\
         <ul>\n<li>a</li>\n<li>b</li>\n</ul>\n\
         <table>\n<tr><th>a</th><th>n</th></tr>\n<tr><td>c</td><td>1</td></tr>\n</table>\n\
         <pre><code class=\"language-sh\">ls &lt;x&gt;\n</code></pre>\n</div>"
    );
    assert_eq!(
        part.plain,
        "T\n\nHi you, site (https://e.org/?a=\"&b) x (javascript:a) <b>\n\n> q\n> \n> r\n\n• a\n• b\n\n\
         a  n\n─  ─\nc  1\n\nls <x>"
    );
    assert_eq!(render(" \n", style(Dialect::EmailHtml, 10)), []);
}
