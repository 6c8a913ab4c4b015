//! Texts of mails for the model: without quotations of the assistant, with marks, limited.

/// Mark of text that the sender did not write.
const FOREIGN: &str = "[what follows was forwarded or quoted: the sender did not write it]";

/// Replacement of a quotation.
const QUOTE_LEFT_OUT: &str = "[the quoted mail is left out]";
/// Maximum number of lines that attribute the quotation below them.
const ATTRIBUTION_LINES: usize = 3;

/// Maximum length of a line that is looked at as a whole answer, in characters.
const LONGEST_ANSWER: usize = 40;
/// Bounds of a quotation in a text that was HTML.
const QUOTED: [&str; 2] = ["[quoted:]", "[end of the quotation]"];

/// Returns the first line of a mail if it is short, and if only quotations and a signature follow.
pub(crate) fn own_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim_end);
    let own = lines.find(|line| !line.trim().is_empty())?.trim();
    let rest: Vec<&str> = lines.collect();
    let is_own = !is_quotation(own) && own.chars().count() <= LONGEST_ANSWER;
    (is_own && has_no_own_words(&rest)).then_some(own)
}

/// `true` if these lines are only quotations, their attributions and a signature.
fn has_no_own_words(mut lines: &[&str]) -> bool {
    while let Some((line, rest)) = lines.split_first() {
        // What follows belongs to the original mail or to the signature.
        if is_signature(line) || is_forward_rule(line) {
            return true;
        }
        if *line == QUOTED[0] {
            lines = after_quotation(rest);
        } else if line.trim().is_empty() || is_quotation(line) {
            lines = rest;
        } else {
            let Some(quotation) = after_attribution(lines) else {
                return false;
            };
            lines = quotation;
        }
    }
    true
}

/// Returns the lines after the end of a quotation that began before them.
fn after_quotation<'a, 'b>(lines: &'a [&'b str]) -> &'a [&'b str] {
    let mut depth = 1_usize;
    let end = lines.iter().position(|line| {
        match QUOTED.iter().position(|bound| bound == line) {
            Some(0) => depth += 1,
            Some(_) => depth -= 1,
            None => {}
        }
        depth == 0
    });
    end.and_then(|end| lines.get(end + 1..)).unwrap_or_default()
}

/// Returns the lines after an attribution, such as `On Monday Ann <ann@x.test> wrote:`, if a
/// quotation follows it.
fn after_attribution<'a, 'b>(lines: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let end = lines
        .iter()
        .take(ATTRIBUTION_LINES)
        .position(|line| line.ends_with(':'))?;
    let (attribution, rest) = lines.split_at_checked(end + 1)?;
    let text = attribution.join(" ");
    let is_attribution =
        text.contains('@') || (text.starts_with("On ") && text.ends_with(" wrote:"));
    let next = rest.iter().find(|line| !line.is_empty())?;
    (is_attribution && is_quotation(next)).then_some(rest)
}

/// `true` for a line of a quotation, and for the line that begins one.
fn is_quotation(line: &str) -> bool {
    line.trim_start().starts_with('>') || line == QUOTED[0]
}

/// `true` for the line that begins a signature, also for that of a telephone.
fn is_signature(line: &str) -> bool {
    line == "--" || line.starts_with("Sent from my ")
}

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
    fn line_above_quotation_and_signature_is_found() {
        for (text, expected) in [
            ("Yes", Some("Yes")),
            ("\n  Yes K7QX \n\n", Some("Yes K7QX")),
            ("Yes\n\n-- \nAnn\nAnn & Co", Some("Yes")),
            ("Yes\n\nSent from my telephone", Some("Yes")),
            (
                "Yes\n\nOn Mon, 2 Nov 2026, at 10:00, Bot\n<bot@x.test> wrote:\n\n> May I?\n>\n> no\n-- \nAnn",
                Some("Yes"),
            ),
            (
                "Ja\nAm Montag schrieb Bot <bot@x.test>:\n> Darf ich?",
                Some("Ja"),
            ),
            ("On it\nOn Monday you wrote:\n> May I?", Some("On it")),
            (
                "no\n\n-----Original Message-----\nFrom: Bot\n\nMay I?",
                Some("no"),
            ),
            (
                "Yes\n[quoted:]\na\n[quoted:]\nb\n[end of the quotation]\n[end of the quotation]",
                Some("Yes"),
            ),
            (
                "Yes\n[quoted:]\na\n[end of the quotation]\nbut not that",
                None,
            ),
            ("Yes\n> May I?\n\nBut not that.", None),
            ("Yes\nbut only this:\n> May I?", None),
            ("Yes\nOn Monday you wrote:\nMay I?", None),
            ("Yes\nand no", None),
            ("> yes", None),
            ("[quoted:]\nyes\n[end of the quotation]", None),
            ("A line that is longer than any answer to a question", None),
            ("", None),
        ] {
            assert_eq!(own_line(text), expected, "{text}");
        }
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
