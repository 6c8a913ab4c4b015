//! Readers of the dialects, written from what the platforms document and not from the renderers:
//! each takes the markup out again and panics on markup that does not close.

/// The text of Telegram's or a mail's HTML without its tags.
pub(super) fn html(html: &str) -> String {
    let mut open: Vec<&str> = Vec::new();
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, behind)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = behind.split_once('>').expect("a tag ends");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{html}"),
            None if matches!(tag, "br" | "hr") => text.push('\n'),
            None => open.push(tag.split(' ').next().unwrap_or_default()),
        }
        rest = after;
    }
    text.push_str(rest);
    assert_eq!(open, Vec::<&str>::new(), "{html}");
    entities(&text)
}

/// Resolves the entities there are; any other `&` is a mistake.
fn entities(text: &str) -> String {
    let mut pieces = text.split('&');
    let mut resolved = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece
            .split_once(';')
            .unwrap_or_else(|| panic!("an entity ends: {text}"));
        resolved.push_str(match name {
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "amp" => "&",
            _ => panic!("&{name}; is no entity"),
        });
        resolved.push_str(rest);
    }
    resolved
}

/// Takes blocks of code out of a text in lines, and gives the rest and the code.
fn fences(text: &str) -> (Vec<&str>, String) {
    let (mut prose, mut code) = (Vec::new(), String::new());
    let mut within = false;
    for line in text.split('\n') {
        if line.contains("```") {
            assert!(
                if within {
                    line == "```"
                } else {
                    line.starts_with("```")
                },
                "{line:?} of {text:?}"
            );
            within = !within;
        } else if within {
            code.push_str(line);
            code.push('\n');
        } else {
            prose.push(line);
        }
    }
    assert!(!within, "a fence is open: {text:?}");
    (prose, code)
}

/// What a reader of Slack sees, without white space at all.
pub(super) fn slack(mrkdwn: &str) -> String {
    let (prose, code) = fences(mrkdwn);
    let mut text = entities(&code);
    for line in prose {
        let line = line.strip_prefix("> ").unwrap_or(line);
        let mut words = String::new();
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once('<') {
            words.push_str(before);
            let (link, after) = behind
                .split_once('>')
                .unwrap_or_else(|| panic!("a link ends: {line:?}"));
            if link.starts_with(['@', '#']) {
                assert!(!link.contains(|c: char| c.is_lowercase()), "{line:?}");
                words.push_str(link);
                rest = after;
                continue;
            }
            let (url, shown) = link.split_once('|').unwrap_or((link, link));
            assert!(
                ["http://", "https://", "mailto:"]
                    .iter()
                    .any(|scheme| url.to_ascii_lowercase().starts_with(scheme)),
                "{line:?}"
            );
            words.push_str(shown);
            rest = after;
        }
        assert!(!rest.contains('>'), "{line:?}");
        words.push_str(rest);
        text.push_str(&entities(&words));
    }
    text
}

/// What a reader of Discord sees of escaped text: escapes resolved, marks left as they are.
pub(super) fn discord(markdown: &str) -> String {
    let (prose, mut text) = fences(markdown);
    for line in prose {
        let mut letters = line.chars();
        while let Some(c) = letters.next() {
            text.push(if c == '\\' {
                letters
                    .next()
                    .unwrap_or_else(|| panic!("an escape ends: {line:?}"))
            } else {
                c
            });
        }
    }
    text
}
