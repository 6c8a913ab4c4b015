//! What a mail holds: its text and its files.
//!
//! Decision: plain text before HTML. Of a text that answers the assistant, what it quotes of the
//! assistant at its end is left out, because the conversation has it already.

use std::borrow::Cow;

use encoding_rs::WINDOWS_1252;
use mail_parser::decoders::html::html_to_text;
use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders as _};

use crate::attachment::Attachment;

/// What stands where a quotation was.
const QUOTE_LEFT_OUT: &str = "[the quoted mail is left out]";
/// The family of types that takes the place of `message`.
const OPAQUE: &str = "unknown";
/// What a quotation in HTML begins with.
const QUOTE_TAG: &str = "<blockquote";
/// How many quotations are marked.
const QUOTES: usize = 100;
/// The most lines that name whom the quotation below them is from.
const ATTRIBUTION_LINES: usize = 3;

/// A mail as far as the assistant sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Lines end with `\n`; empty when there is no text.
    pub(crate) text: String,
    pub(crate) attachments: Vec<Attachment>,
}

impl Content {
    /// Reads a mail. `None` when it is none.
    pub(crate) fn read(mut mail: Vec<u8>) -> Option<Self> {
        flatten(&mut mail);
        let message = MessageParser::default().parse(&mail)?;
        let attachments = message.attachments().map(|part| {
            let (name, mime) = (part.attachment_name(), part.content_type());
            let mime = mime.map(|mime| match mime.subtype() {
                Some(subtype) => format!("{}/{subtype}", mime.ctype()).to_lowercase(),
                None => mime.ctype().to_lowercase(),
            });
            let is_mail = mime.as_deref().is_some_and(|mime| mime.starts_with(OPAQUE));
            let (name, mime) = match (name, is_mail) {
                (name, true) => (name.unwrap_or("mail.eml"), Some("message/rfc822")),
                (name, false) => (name.unwrap_or("unnamed"), mime.as_deref()),
            };
            Attachment::new(name, mime, part.contents())
        });
        Some(Self { text: clean(&text(&message)), attachments: attachments.collect() })
    }
}

/// Makes mails within the mail opaque. The parser would keep them as values within values, as deep
/// as a stranger likes, and a value that deep cannot even be dropped: the stack ends before it does.
fn flatten(mail: &mut [u8]) {
    const HEADER: &[u8] = b"content-type";
    let mut in_type = false;
    for line in mail.split_inclusive_mut(|byte| *byte == b'\n') {
        let is_folded = line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        in_type =
            line.get(..HEADER.len()).is_some_and(|name| name.eq_ignore_ascii_case(HEADER)) || is_folded && in_type;
        if in_type {
            disguise(line, b"message", OPAQUE.as_bytes());
            // Its parts are mails where nothing else is said.
            disguise(line, b"digest", b"shadow");
        }
    }
}

/// Replaces a word in the type that a line names. Both words have one length.
fn disguise(line: &mut [u8], word: &[u8], other: &[u8]) {
    let type_ends = line.iter().position(|byte| *byte == b';').unwrap_or(line.len());
    for start in 0..type_ends {
        if let Some(place) = line.get_mut(start..start + word.len())
            && place.eq_ignore_ascii_case(word)
        {
            place.copy_from_slice(other);
        }
    }
}

fn text(message: &Message<'_>) -> String {
    let plain = (0..message.text_body_count()).filter_map(|index| {
        let text = message.body_text(index)?;
        let part = u32::try_from(index).ok().and_then(|index| message.text_part(index));
        Some(if part.is_some_and(says_ascii) { as_meant(text) } else { text })
    });
    let plain = plain.collect::<Vec<_>>().join("\n");
    if !plain.trim().is_empty() {
        return plain;
    }
    let html = (0..message.html_body_count()).filter_map(|index| message.body_html(index));
    html.map(|html| html_to_text(&with_quotes_marked(&html))).collect::<Vec<_>>().join("\n")
}

/// HTML with its quotations in words, because plain text shows none of them. At most as many as a
/// person would read.
fn with_quotes_marked(html: &str) -> String {
    let mut marked = String::with_capacity(html.len());
    let mut rest = html;
    for _ in 0..QUOTES {
        let is_tag =
            |at: &usize| rest.get(*at..at + QUOTE_TAG.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(QUOTE_TAG));
        let Some((before, tag)) =
            rest.match_indices('<').map(|(at, _)| at).find(is_tag).and_then(|at| rest.split_at_checked(at))
        else {
            break;
        };
        marked.push_str(before);
        marked.push_str("<p>[quoted:]</p>");
        let (tag, after) = tag.split_at_checked(QUOTE_TAG.len()).unwrap_or((tag, ""));
        marked.push_str(tag);
        rest = after;
    }
    marked.push_str(rest);
    marked
}

/// Whether a part says that all its letters are ASCII, as some programs do whatever they are.
fn says_ascii(part: &MessagePart<'_>) -> bool {
    let charset = part.content_type().and_then(|kind| kind.attribute("charset"));
    charset.is_some_and(|charset| ["us-ascii", "ascii"].iter().any(|ascii| ascii.eq_ignore_ascii_case(charset)))
}

/// What is not ASCII in such a part was read as the letters of western Windows. Where it makes sense
/// as UTF-8, that is what was meant.
fn as_meant(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() {
        return text;
    }
    let (bytes, _, is_lossy) = WINDOWS_1252.encode(&text);
    match String::from_utf8(bytes.into_owned()) {
        Ok(meant) if !is_lossy => meant.into(),
        _ => text,
    }
}

/// The text with plain line ends, without characters that cannot be seen, and without blank lines
/// in a row.
fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}'], "\n");
    let text: String = text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')).collect();
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && lines.last().is_none_or(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    lines.join("\n").trim_end().to_owned()
}

/// The text without the quotation that it ends with, if it says anything else.
pub(crate) fn without_quote(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_quoted = |line: &&str| line.trim_start().starts_with('>');
    let own = lines.iter().rposition(|line| !line.is_empty() && !is_quoted(line)).map_or(0, |last| last + 1);
    let (own, quotation) = lines.split_at_checked(own).unwrap_or((&lines, &[]));
    if !quotation.iter().any(is_quoted) {
        return text.to_owned();
    }
    let mut own = own.to_vec();
    if own.last().is_some_and(|line| line.ends_with(':')) {
        let attribution = own.iter().rev().take(ATTRIBUTION_LINES).take_while(|line| !line.is_empty()).count();
        own.truncate(own.len() - attribution);
    }
    let own = own.join("\n");
    if own.trim().is_empty() { text.to_owned() } else { format!("{}\n\n{QUOTE_LEFT_OUT}", own.trim_end()) }
}

/// The first `limit` characters, saying how many more there were.
pub(crate) fn limited(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit).collect();
    format!("{head}\n[… {} more characters are left out]", length - limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(mail: &[u8]) -> String {
        Content::read(mail.to_vec()).unwrap().text
    }

    #[test]
    fn texts_are_read_in_many_forms() {
        let table: [(&[u8], &str); 19] = [
            (b"Content-Type: text/html\r\n\r\n<BLOCKQUOTE type=cite>/new</BLOCKQUOTE><p>Yes</p>", "[quoted:]\n/new\nYes"),
            (b"Subject: x\r\n\r\none\r\n\r\n\r\n\r\ntwo \x07\r\n", "one\n\ntwo"),
            (b"Content-Type: text/plain; charset=iso-8859-1\r\n\r\nGr\xfc\xdfe", "Grüße"),
            (b"Content-Type: text/plain; charset=gb2312\r\n\r\n\xc4\xe3\xba\xc3", "你好"),
            (b"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B4A;z\x1b(B", "漢字"),
            // What is said of the letters is missing, misspelt, or wrong.
            (b"Subject: x\r\n\r\nGr\xc3\xbc\xc3\x9fe", "Gr\u{fc}\u{df}e"),
            (b"Content-Type: text/plain; charset=us-ascii\r\n\r\nGr\xc3\xbc\xc3\x9fe", "Gr\u{fc}\u{df}e"),
            (b"Content-Type: text/plain; charset=US-ASCII\r\n\r\nGr\xfc\xdfe", "Gr\u{fc}\u{df}e"),
            (b"Content-Type: text/plain; charset=UTF8\r\n\r\nGr\xc3\xbc\xc3\x9fe", "Gr\u{fc}\u{df}e"),
            (b"Content-Type: text/plain; charset=x-unknown\r\n\r\nGr\xc3\xbc\xc3\x9fe", "Gr\u{fc}\u{df}e"),
            (b"Content-Type: text/plain; charset=utf-8\r\n\r\nGr\xfc\xdfe", "Gr\u{fffd}\u{fffd}e"),
            (b"Content-Type: text/plain; charset=\"Windows-1252\"\r\n\r\n\x93Gr\xfc\xdfe\x94", "\u{201c}Gr\u{fc}\u{df}e\u{201d}"),
            (b"Content-Type: text/plain; charset=gb18030\r\n\r\n\xc4\xe3\xba\xc3", "\u{4f60}\u{597d}"),
            (b"Content-Type: text/plain; charset=ks_c_5601-1987\r\n\r\n\xbe\xc8", "\u{c548}"),
            (b"Content-Type: text/plain; charset=big5\r\n\r\n\xa7\x41", "\u{4f60}"),
            (
                b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n4pyTIG9r\r\n",
                "✓ ok",
            ),
            (
                b"Content-Type: text/html\r\n\r\n<style>p{}</style><p>Hello <b>you</b><br>there &amp; here</p><p>Bye</p>",
                "Hello you\nthere & here\nBye",
            ),
            (
                b"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nplain\r\n\
                  --b\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--b--\r\n",
                "plain",
            ),
            (
                b"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n \r\n\
                  --b\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--b--\r\n",
                "html",
            ),
        ];
        for (mail, text) in table {
            assert_eq!(text_of(mail), text, "{}", String::from_utf8_lossy(mail));
        }
    }

    #[test]
    fn broken_and_hostile_mails_are_read_as_far_as_they_go() {
        let mut deep = String::new();
        for level in 0..20_000 {
            deep.push_str(&format!("Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"));
        }
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(20_000);
        let folded = "CONTENT-TYPE:\n\t MESSAGE/rfc822\n\n".repeat(20_000);
        let digests = (0..20_000)
            .map(|level| format!("Content-Type: multipart/digest; boundary=b{level}\r\n\r\n--b{level}\r\n\r\n"));
        let digests: String = digests.collect();
        let boundaries =
            format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", "--b\r\n\r\nx\r\n".repeat(100_000));
        for mail in [deep, nested, folded, digests, boundaries, "\0".repeat(1000), "=?utf-8?q?".repeat(10_000)] {
            Content::read(mail.into_bytes());
        }
        let forwarded = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee\r\n--b\r\n\
                          Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nmessage/rfc822\r\n--b--\r\n";
        let inner = Attachment::new("mail.eml", Some("message/rfc822"), b"Subject: inner\r\n\r\nmessage/rfc822");
        let expected = Content { text: "see".to_owned(), attachments: vec![inner] };
        assert_eq!(Content::read(forwarded.to_vec()), Some(expected));
        let cut =
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nseen\r\n--b\r\nContent-Type: image/png\r\n\
                    Content-Transfer-Encoding: base64\r\n\r\niVBORw0KG";
        assert_eq!(text_of(cut), "seen");
    }

    #[test]
    fn a_quotation_at_the_end_is_left_out_when_there_is_more() {
        let table = [
            ("Yes.\n\nOn Monday\nbot@x.test wrote:\n> Really?\n>\n> Yes?", "Yes.\n\n[the quoted mail is left out]"),
            ("> Really?\n\nYes.", "> Really?\n\nYes."),
            ("> only\n> this", "> only\n> this"),
            ("Am Montag schrieb er:\n> only this", "Am Montag schrieb er:\n> only this"),
            ("no quotation", "no quotation"),
        ];
        for (text, expected) in table {
            assert_eq!(without_quote(text), expected, "{text}");
        }
        assert_eq!(limited("äöü", 3), "äöü");
        assert_eq!(limited("äöü!", 3), "äöü\n[… 1 more characters are left out]");
    }
}
