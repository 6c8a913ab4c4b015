//! Text as Slack writes it, made readable: `<…>` tokens and escaped characters.
//!
//! People are left as `<@U…>`, because that is also how the assistant mentions them.

/// Returns `text` without the mentions of one person and the blanks after them.
pub(crate) fn strip_mention(text: &str, user: &str) -> String {
    let opening = format!("<@{user}");
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&opening) {
        let label = after
            .strip_prefix('|')
            .and_then(|label| label.split_once('>'));
        let Some(after_token) = after
            .strip_prefix('>')
            .or(label.map(|(_, after_token)| after_token))
        else {
            // A longer id that begins alike.
            kept.push_str(before);
            kept.push_str(&opening);
            rest = after;
            continue;
        };
        kept.push_str(before);
        rest = after_token.trim_start();
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}

/// `true` if a text mentions a person.
pub(crate) fn mentions(text: &str, user: &str) -> bool {
    text.contains(&format!("<@{user}>")) || text.contains(&format!("<@{user}|"))
}

/// Renders the tokens of a text readably, and unescapes its characters.
pub(crate) fn readable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(&unescaped(before));
        let Some((token, after_token)) = after.split_once('>') else {
            out.push('<');
            rest = after;
            continue;
        };
        out.push_str(&token_text(token));
        rest = after_token;
    }
    out.push_str(&unescaped(rest));
    out
}

fn token_text(token: &str) -> String {
    let (target, label) = match token.split_once('|') {
        Some((target, label)) => (
            target,
            Some(unescaped(label)).filter(|label| !label.is_empty()),
        ),
        None => (token, None),
    };
    let first = target.chars().next();
    match (first, label) {
        (Some('@'), _) => format!("<{target}>"),
        (Some('#'), Some(name)) => format!("#{name}"),
        (Some('#'), None) => format!("<{target}>"),
        (Some('!'), Some(label)) => label,
        (Some('!'), None) => target.replacen('!', "@", 1),
        (_, None) => unescaped(target),
        (_, Some(label)) => {
            let address = unescaped(target);
            // Slack makes links of what looks like one; then the label says nothing new.
            let is_the_same =
                address.ends_with(&label) || address.trim_end_matches('/').ends_with(&label);
            if is_the_same {
                label
            } else {
                format!("[{label}]({address})")
            }
        }
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// Escapes plain text, so that Slack finds no tokens in it.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns at most `limit` code points of a text.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    text.char_indices()
        .nth(limit)
        .and_then(|(end, _)| text.get(..end))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mention_is_removed_with_trailing_blanks() {
        let table = [
            ("<@UBOT> hello", "hello"),
            ("  hello <@UBOT>", "hello"),
            ("<@UBOT|nano>  a <@UBOT> b", "a b"),
            ("<@UBOTTOM> hi", "<@UBOTTOM> hi"),
            ("<@UBOT", "<@UBOT"),
            ("<@UANN> hi", "<@UANN> hi"),
            ("", ""),
        ];
        for (text, kept) in table {
            assert_eq!(strip_mention(text, "UBOT"), kept, "{text}");
        }
        assert!(
            mentions("a <@UBOT|x>", "UBOT")
                && mentions("<@UBOT>", "UBOT")
                && !mentions("<@UBOTTOM>", "UBOT")
        );
    }

    #[test]
    fn tokens_are_rendered_as_readable_text() {
        let table = [
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
            ("&amp;lt;", "&lt;"),
            (
                "see <https://x.test/a?b=1&amp;c=2>",
                "see https://x.test/a?b=1&c=2",
            ),
            ("<https://x.test/|x.test>", "x.test"),
            ("<mailto:a@x.test|a@x.test>", "a@x.test"),
            (
                "<https://x.test/a|the page>",
                "[the page](https://x.test/a)",
            ),
            (
                "<@UANN> and <@UBEN|ben> in <#C1|general>, <#C2>",
                "<@UANN> and <@UBEN> in #general, <#C2>",
            ),
            (
                "<!here> <!subteam^S1|@team> <!date^1^{date}|today>",
                "@here @team today",
            ),
            ("a < b", "a < b"),
            ("日本<語", "日本<語"),
        ];
        for (text, words) in table {
            assert_eq!(readable(text), words, "{text}");
        }
        assert_eq!(escaped("<@U1> & co"), "&lt;@U1&gt; &amp; co");
        assert_eq!(
            (head("日本語", 2), head("ab", 2), head("", 0)),
            ("日本", "ab", "")
        );
    }
}
