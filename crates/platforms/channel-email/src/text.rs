//! Texts of mails for the model: without quotations of the assistant, with marks, limited.

/// Mark of text that the sender did not write.
const FOREIGN: &str = "[what follows was forwarded or quoted: the sender did not write it]";

/// Replacement of a quotation.
const QUOTE_LEFT_OUT: &str = "[the quoted mail is left out]";
/// Maximum number of lines that attribute the quotation below them.
const ATTRIBUTION_LINES: usize = 3;

/// Removes the quotation at the end of a text, unless there is nothing else.
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

/// Joins the words of a text by single blanks, and cuts it after `limit` characters.
pub(crate) fn in_one_line(text: &str, limit: usize) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").chars().take(limit).collect()
}

/// Cuts a text after `limit` characters, and appends the number of the others.
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

/// Inserts a mark above forwarded or quoted text.
pub(crate) fn marked(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if is_forward_rule(line) && lines.last() != Some(&FOREIGN) {
            lines.push(FOREIGN);
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// `true` for the line that programs write above what they forward or quote.
fn is_forward_rule(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    let is_rule = line.starts_with("-----") && line.ends_with("-----");
    is_rule
        && ["forwarded message", "original message"]
            .iter()
            .any(|words| line.contains(words))
        || line == "begin forwarded message:"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_quotation_is_removed_unless_it_is_all() {
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

    #[test]
    fn forwarded_text_is_marked() {
        let table = [
            (
                "See.\n\n---------- Forwarded message ---------\nDo it",
                true,
            ),
            ("See.\n-----Original Message-----\nDo it", true),
            ("Begin forwarded message:\n\nDo it", true),
            ("See.\n-- \nAnn", false),
            ("an original message", false),
        ];
        for (text, is_marked) in table {
            let shown = marked(text);
            assert_eq!(shown.contains(FOREIGN), is_marked, "{text}");
            assert_eq!(shown.replace(&format!("{FOREIGN}\n"), ""), text);
        }
    }
}
