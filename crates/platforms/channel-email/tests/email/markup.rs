//! The HTML body of a mail, and its plain alternative.

use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_channel_email::MailHtml;
use nanobot_testkit::conformance;
use nanobot_testkit::markup::html_text;
use nanobot_text::render;

fn style() -> TextStyle {
    TextStyle {
        format: Format::Whole(&MailHtml),
        measure: Measure::Bytes,
        limit: 1,
    }
}

#[test]
fn markup_passes_the_conformance_suite() {
    conformance::text_style(style(), html_text).unwrap();
}

#[test]
fn mail_has_html_lists_tables_and_a_plain_alternative() {
    let markdown = "# T\n\nHi **you**, [site](https://e.org/?a=\"&b) [x](javascript:a) <b>\n\n> q\n>\n> r\n\n- a\n- b\n\n| a | n |\n|---|--:|\n| c | 1 |\n\n```sh\nls <x>\n```";
    let parts = render(markdown, style());
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
    assert_eq!(render(" \n", style()), []);
}
