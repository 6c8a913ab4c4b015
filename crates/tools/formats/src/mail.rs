//! Parses mails: the fields of a header, and a mail's text and files.
//!
//! Decision: plain text is preferred to HTML.

use std::borrow::Cow;

use encoding_rs::WINDOWS_1252;
use mail_parser::decoders::html::html_to_text;
use mail_parser::{Address, HeaderValue, Message, MessageParser, MessagePart, MimeHeaders as _};

use nanobot_extract::{ExtractError, MailFile, MailHeader, MailText, Mailbox};

/// Type that replaces `message` in a nested mail.
const OPAQUE: &str = "unknown";
/// Maximum number of `From` addresses returned: one is used, and two are an error.
const ADDRESSES: usize = 2;
/// Tags that begin and end a quotation in HTML, and the words that mark them.
const QUOTE_TAGS: [(&str, &str); 2] = [
    ("<blockquote", "[quoted:]"),
    ("</blockquote", "[end of the quotation]"),
];
/// Maximum number of quotation marks inserted, more than a person would read.
const MARKED_QUOTES: usize = 200;
/// Number of ids returned from the end of a list, in addition to the first one.
const IDS: usize = 100;

/// Parses a header.
pub(crate) fn header(header: &[u8]) -> Result<MailHeader, ExtractError> {
    let message = MessageParser::default()
        .parse_headers(header)
        .ok_or_else(no_mail)?;
    let from = match message.from() {
        Some(Address::List(list)) => list.iter().take(ADDRESSES).map(mailbox).collect(),
        _ => Vec::new(),
    };
    Ok(MailHeader {
        from,
        subject: message.subject().map(str::to_owned),
        message_id: message.message_id().map(str::to_owned),
        in_reply_to: ids(message.in_reply_to()),
        references: ids(message.references()),
        fields: message
            .headers_raw()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    })
}

fn mailbox(address: &mail_parser::Addr<'_>) -> Mailbox {
    Mailbox {
        name: address.name.as_deref().map(str::to_owned),
        address: address.address.as_deref().map(str::to_owned),
    }
}

fn ids(value: &HeaderValue<'_>) -> Vec<String> {
    match value {
        HeaderValue::Text(id) => vec![id.to_string()],
        HeaderValue::TextList(ids) => {
            let last = ids.len().saturating_sub(IDS).max(1);
            ids.iter()
                .take(1)
                .chain(ids.iter().skip(last))
                .map(ToString::to_string)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Parses a mail, which may be truncated.
pub(crate) fn text(mut mail: Vec<u8>) -> Result<MailText, ExtractError> {
    flatten(&mut mail);
    let message = MessageParser::default().parse(&mail).ok_or_else(no_mail)?;
    let files = message
        .attachments()
        .take(MailText::MAX_FILES)
        .map(file)
        .collect();
    Ok(MailText {
        text: clean(&written(&message)),
        files,
    })
}

fn no_mail() -> ExtractError {
    ExtractError::Unreadable("it is no mail".to_owned())
}

fn file(part: &MessagePart<'_>) -> MailFile {
    let (name, mime) = (part.attachment_name(), part.content_type());
    let mime = mime.map(|mime| match mime.subtype() {
        Some(subtype) => format!("{}/{subtype}", mime.ctype()).to_lowercase(),
        None => mime.ctype().to_lowercase(),
    });
    let is_mail = mime.as_deref().is_some_and(|mime| mime.starts_with(OPAQUE));
    let (name, mime) = match (name, is_mail) {
        (name, true) => (
            name.unwrap_or("mail.eml"),
            Some("message/rfc822".to_owned()),
        ),
        (name, false) => (name.unwrap_or("unnamed"), mime),
    };
    MailFile {
        name: name.to_owned(),
        mime,
        bytes: part.contents().to_vec(),
    }
}

/// Makes nested mails opaque. The parser would keep them as nested values of any depth, and
/// dropping such a value overflows the stack. Headers written so that this function does not find
/// them can still crash the helper.
fn flatten(mail: &mut [u8]) {
    const HEADER: &[u8] = b"content-type";
    let mut in_type = false;
    for line in mail.split_inclusive_mut(|byte| *byte == b'\n') {
        let is_folded = line
            .first()
            .is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        in_type = line
            .get(..HEADER.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(HEADER))
            || is_folded && in_type;
        if in_type {
            replace_type(line, b"message", OPAQUE.as_bytes());
            // The parts of a digest are mails by default.
            replace_type(line, b"digest", b"shadow");
        }
    }
}

/// Replaces a word in the media type on a header line. Both words have the same length.
fn replace_type(line: &mut [u8], word: &[u8], other: &[u8]) {
    let type_ends = line
        .iter()
        .position(|byte| *byte == b';')
        .unwrap_or(line.len());
    for start in 0..type_ends {
        if let Some(place) = line.get_mut(start..start + word.len())
            && place.eq_ignore_ascii_case(word)
        {
            place.copy_from_slice(other);
        }
    }
}

fn written(message: &Message<'_>) -> String {
    let plain = (0..message.text_body_count()).filter_map(|index| {
        let part = u32::try_from(index)
            .ok()
            .and_then(|index| message.text_part(index));
        // If a mail has no plain text, its HTML is listed here, too.
        if let Some(html) = part
            .filter(|part| part.is_text_html())
            .and_then(|part| part.text_contents())
        {
            return Some(html_to_text(&with_quotes_marked(html)).into());
        }
        let text = message.body_text(index)?;
        Some(if part.is_some_and(says_ascii) {
            redecode_utf8(text)
        } else {
            text
        })
    });
    let plain = plain.collect::<Vec<_>>().join("\n");
    if !plain.trim().is_empty() {
        return plain;
    }
    let html = (0..message.html_body_count()).filter_map(|index| message.body_html(index));
    html.map(|html| html_to_text(&with_quotes_marked(&html)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Marks the quotations of an HTML text in words, because the plain text does not show them.
fn with_quotes_marked(html: &str) -> String {
    let mut marked = String::with_capacity(html.len());
    let mut rest = html;
    for _ in 0..MARKED_QUOTES {
        let found = rest
            .match_indices('<')
            .find_map(|(at, _)| Some((at, quote_tag(rest.get(at..)?)?)));
        let Some((at, (tag, words))) = found else {
            break;
        };
        let Some((before, after)) = rest.split_at_checked(at) else {
            break;
        };
        let (tag, after) = after.split_at_checked(tag.len()).unwrap_or((after, ""));
        marked.extend([before, "<br>", words, "<br>", tag]);
        rest = after;
    }
    marked.push_str(rest);
    marked
}

/// Returns the quotation tag that `text` begins with, and its words.
fn quote_tag(text: &str) -> Option<(&'static str, &'static str)> {
    QUOTE_TAGS.into_iter().find(|(tag, _)| {
        text.get(..tag.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(tag))
    })
}

/// Returns `true` if a part claims to be ASCII, as some programs do for any text.
fn says_ascii(part: &MessagePart<'_>) -> bool {
    let charset = part
        .content_type()
        .and_then(|kind| kind.attribute("charset"));
    charset.is_some_and(|charset| {
        ["us-ascii", "ascii"]
            .iter()
            .any(|ascii| ascii.eq_ignore_ascii_case(charset))
    })
}

/// Decodes such a part again if it is not ASCII: the parser read it as Windows-1252, but it is
/// UTF-8 if it is valid as that.
fn redecode_utf8(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() {
        return text;
    }
    let (bytes, _, is_lossy) = WINDOWS_1252.encode(&text);
    match String::from_utf8(bytes.into_owned()) {
        Ok(decoded) if !is_lossy => decoded.into(),
        _ => text,
    }
}

/// Normalizes line ends, and removes control characters and repeated blank lines.
fn clean(text: &str) -> String {
    let text = text
        .replace("\r\n", "\n")
        .replace(['\r', '\u{2028}', '\u{2029}'], "\n");
    let text: String = text
        .chars()
        .filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'))
        .collect();
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && lines.last().is_none_or(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    lines.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(mail: &[u8]) -> String {
        text(mail.to_vec()).unwrap().text
    }

    #[test]
    fn reads_text_of_many_mail_formats() {
        let table: [(&[u8], &str); 19] = [
            (b"Content-Type: text/html\r\n\r\n<BLOCKQUOTE type=cite>/new</BLOCKQUOTE><p>Yes</p>", "[quoted:]\n/new\n[end of the quotation]\nYes"),
            (b"Subject: x\r\n\r\none\r\n\r\n\r\n\r\ntwo \x07\r\n", "one\n\ntwo"),
            (b"Content-Type: text/plain; charset=iso-8859-1\r\n\r\nGr\xfc\xdfe", "Grüße"),
            (b"Content-Type: text/plain; charset=gb2312\r\n\r\n\xc4\xe3\xba\xc3", "你好"),
            (b"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B4A;z\x1b(B", "漢字"),
            // The charset is missing, misspelt, or wrong.
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
        for (mail, expected) in table {
            assert_eq!(text_of(mail), expected, "{}", String::from_utf8_lossy(mail));
        }
    }

    #[test]
    fn reads_broken_and_hostile_mails_partially() {
        let mut deep = String::new();
        for level in 0..20_000 {
            deep.push_str(&format!(
                "Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"
            ));
        }
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(20_000);
        let folded = "CONTENT-TYPE:\n\t MESSAGE/rfc822\n\n".repeat(20_000);
        let digests = (0..20_000).map(|level| {
            format!("Content-Type: multipart/digest; boundary=b{level}\r\n\r\n--b{level}\r\n\r\n")
        });
        let digests: String = digests.collect();
        let boundaries = format!(
            "Content-Type: multipart/mixed; boundary=b\r\n\r\n{}",
            "--b\r\n\r\nx\r\n".repeat(100_000)
        );
        for mail in [
            deep,
            nested,
            folded,
            digests,
            boundaries,
            "\0".repeat(1000),
            "=?utf-8?q?".repeat(10_000),
        ] {
            drop(text(mail.into_bytes()));
        }
        let forwarded = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee\r\n--b\r\n\
                          Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nmessage/rfc822\r\n--b--\r\n";
        let inner = MailFile {
            name: "mail.eml".to_owned(),
            mime: Some("message/rfc822".to_owned()),
            bytes: b"Subject: inner\r\n\r\nmessage/rfc822".to_vec(),
        };
        let expected = MailText {
            text: "see".to_owned(),
            files: vec![inner],
        };
        assert_eq!(text(forwarded.to_vec()).unwrap(), expected);
        let cut =
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nseen\r\n--b\r\nContent-Type: image/png\r\n\
                    Content-Transfer-Encoding: base64\r\n\r\niVBORw0KG";
        assert_eq!(text_of(cut), "seen");
    }

    #[test]
    fn keeps_the_first_and_last_of_many_references() {
        let list: Vec<String> = (0..500)
            .map(|number| format!("<{number}@x.test>"))
            .collect();
        let read = header(
            format!(
                "References: {}\r\nIn-Reply-To: <a@x.test>\r\n\r\n",
                list.join(" ")
            )
            .as_bytes(),
        )
        .unwrap();
        assert_eq!(read.references.len(), IDS + 1);
        assert_eq!(
            (read.references[0].as_str(), read.references[IDS].as_str()),
            ("0@x.test", "499@x.test")
        );
        assert_eq!(read.in_reply_to, ["a@x.test"]);
    }
}
