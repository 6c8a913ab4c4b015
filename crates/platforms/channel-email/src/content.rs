//! What a mail holds: its text and its files.
//!
//! The helper process reads it (`nanobot-extract`). Of a text that answers the assistant, what it quotes of the
//! assistant at its end is left out, because the conversation has it already.

use nanobot_extract::MailText;

use crate::attachment::Attachment;

/// What stands where a quotation was.
const QUOTE_LEFT_OUT: &str = "[the quoted mail is left out]";
/// The most lines that name whom the quotation below them is from.
const ATTRIBUTION_LINES: usize = 3;

/// A mail as far as the assistant sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Lines end with `\n`; empty when there is no text.
    pub(crate) text: String,
    pub(crate) attachments: Vec<Attachment>,
}

impl From<MailText> for Content {
    fn from(mail: MailText) -> Self {
        let attachments = mail
            .files
            .into_iter()
            .map(|file| Attachment::new(&file.name, file.mime.as_deref(), file.bytes));
        Self {
            text: mail.text,
            attachments: attachments.collect(),
        }
    }
}

/// The text without the quotation that it ends with, if it says anything else.
pub(crate) fn without_quote(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_quoted = |line: &&str| line.trim_start().starts_with('>');
    let own = lines
        .iter()
        .rposition(|line| !line.is_empty() && !is_quoted(line))
        .map_or(0, |last| last + 1);
    let (own, quotation) = lines.split_at_checked(own).unwrap_or((&lines, &[]));
    if !quotation.iter().any(is_quoted) {
        return text.to_owned();
    }
    let mut own = own.to_vec();
    if own.last().is_some_and(|line| line.ends_with(':')) {
        let attribution = own
            .iter()
            .rev()
            .take(ATTRIBUTION_LINES)
            .take_while(|line| !line.is_empty())
            .count();
        own.truncate(own.len() - attribution);
    }
    let own = own.join("\n");
    if own.trim().is_empty() {
        text.to_owned()
    } else {
        format!("{}\n\n{QUOTE_LEFT_OUT}", own.trim_end())
    }
}

/// The first `limit` characters, saying how many more there were.
pub(crate) fn limited(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit).collect();
    format!(
        "{head}\n[… {} more characters are left out]",
        length - limit
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_at_the_end_is_left_out_when_there_is_more() {
        let table = [
            (
                "Yes.\n\nOn Monday\nbot@x.test wrote:\n> Really?\n>\n> Yes?",
                "Yes.\n\n[the quoted mail is left out]",
            ),
            ("> Really?\n\nYes.", "> Really?\n\nYes."),
            ("> only\n> this", "> only\n> this"),
            (
                "Am Montag schrieb er:\n> only this",
                "Am Montag schrieb er:\n> only this",
            ),
            ("no quotation", "no quotation"),
        ];
        for (text, expected) in table {
            assert_eq!(without_quote(text), expected, "{text}");
        }
        assert_eq!(limited("äöü", 3), "äöü");
        assert_eq!(
            limited("äöü!", 3),
            "äöü\n[… 1 more characters are left out]"
        );
    }
}
