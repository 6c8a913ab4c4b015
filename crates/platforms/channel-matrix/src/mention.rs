//! Mentions of the assistant in a message.
//!
//! A client names the mentioned people in `m.mentions`. Texts of clients without it, and of people
//! who write an account out, are read, too: a name that is written is an intention, and it only
//! makes a message addressed, which access is asked about all the same.

use nanobot_channel::Value;

use crate::wire::{member, text};

/// The names of the assistant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnNames {
    /// The account (`@bot:server`).
    pub(crate) user_id: String,
    /// The name that people see; may be empty.
    pub(crate) display_name: String,
}

/// `true` if a message mentions the assistant. `body` is its text without quotations.
pub(crate) fn is_mentioned(
    names: &OwnNames,
    content: &Value,
    body: &str,
    allows_room: bool,
) -> bool {
    let mentions = member(content, "m.mentions");
    let users = member(mentions, "user_ids").as_array();
    let is_named = users
        .into_iter()
        .flatten()
        .any(|user| user.as_str() == Some(names.user_id.as_str()));
    let is_room = mentions.get("room") == Some(&Value::Bool(true));
    if is_named || (allows_room && is_room) || contains_word(body, &names.user_id) {
        return true;
    }
    // A client that knows `m.mentions` says all with it.
    !mentions.is_object()
        && (has_pill(content, &names.user_id)
            || (allows_room && contains_word(body, "@room"))
            || leading_name(names, body).is_some())
}

/// Returns a text without the mention at its beginning.
pub(crate) fn without_leading_mention<'a>(names: &OwnNames, body: &'a str) -> &'a str {
    let text = body.trim_start();
    let rest = text
        .strip_prefix(names.user_id.as_str())
        .filter(|rest| !rest.starts_with(is_of_id))
        .or_else(|| leading_name(names, text));
    match rest {
        Some(rest) if !names.user_id.is_empty() => rest.trim_start_matches([':', ',']).trim_start(),
        _ => body,
    }
}

/// Returns what follows the display name at the beginning of a text, if a mark is between.
fn leading_name<'a>(names: &OwnNames, body: &'a str) -> Option<&'a str> {
    let name = names.display_name.trim();
    if name.is_empty() {
        return None;
    }
    let text = body.trim_start();
    let text = text.strip_prefix('@').unwrap_or(text);
    let rest = text.strip_prefix(name)?;
    rest.starts_with([':', ',']).then_some(rest)
}

/// `true` if the formatted text links to the account, outside of a quotation.
fn has_pill(content: &Value, user_id: &str) -> bool {
    let html = text(content, "formatted_body");
    let own = html.rsplit("</mx-reply>").next().unwrap_or_default();
    let encoded = user_id.replace('@', "%40").replace(':', "%3A");
    [user_id, &encoded].into_iter().any(|user| {
        let link = format!("https://matrix.to/#/{user}");
        own.match_indices(&link).any(|(at, link)| {
            let rest = own.get(at + link.len()..).unwrap_or_default();
            rest.starts_with(['"', '\''])
        })
    })
}

/// `true` if the text has `word`, and not as a part of a longer id.
fn contains_word(body: &str, word: &str) -> bool {
    !word.is_empty()
        && body.match_indices(word).any(|(at, _)| {
            let before = body.get(..at).unwrap_or_default();
            let after = body.get(at + word.len()..).unwrap_or_default();
            let ends_word = after.strip_prefix(['.', ':']).unwrap_or(after);
            !before.ends_with(is_of_id) && !ends_word.starts_with(is_of_id)
        })
}

fn is_of_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_=/.@".contains(c)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names() -> OwnNames {
        OwnNames {
            user_id: "@bot:x.test".to_owned(),
            display_name: "Nano Bot".to_owned(),
        }
    }

    #[test]
    fn mention_is_intentional_or_written_out() {
        let pill = r#"<a href="https://matrix.to/#/@bot:x.test">Bot</a> hi"#;
        let quoted = format!("<mx-reply>{pill}</mx-reply>yes");
        let table = [
            (
                json!({"m.mentions": {"user_ids": ["@bot:x.test"]}}),
                "hi",
                true,
            ),
            (
                json!({"m.mentions": {"user_ids": ["@eve:x.test", 5]}}),
                "hi",
                false,
            ),
            (json!({"m.mentions": {}}), "Nano Bot: hi", false),
            (json!({"m.mentions": {}}), "so @bot:x.test, hi", true),
            (json!({}), "ask @bot:x.test.", true),
            (json!({}), "ask @bot:x.test.example", false),
            (json!({}), "ask me@bot:x.test", false),
            (json!({}), "Nano Bot: hi", true),
            (json!({}), "@Nano Bot, hi", true),
            (json!({}), "Nano Bot says hi", false),
            (json!({"formatted_body": pill}), "Bot hi", true),
            (json!({"formatted_body": quoted}), "yes", false),
            (json!({"m.mentions": {"room": true}}), "all", false),
            (json!([]), "", false),
        ];
        for (content, body, expected) in table {
            let found = is_mentioned(&names(), &content, body, false);
            assert_eq!(found, expected, "{content} {body}");
        }
    }

    #[test]
    fn room_mention_counts_only_if_allowed() {
        let content = json!({"m.mentions": {"room": true}});
        assert!(is_mentioned(&names(), &content, "all", true));
        assert!(is_mentioned(&names(), &json!({}), "@room hi", true));
        assert!(!is_mentioned(&names(), &json!({}), "@room hi", false));
        assert!(!is_mentioned(
            &names(),
            &json!({"m.mentions": {"room": "yes"}}),
            "all",
            true
        ));
    }

    #[test]
    fn leading_mention_is_removed() {
        for (body, expected) in [
            ("@bot:x.test: /new", "/new"),
            ("Nano Bot, hi", "hi"),
            ("@bot:x.tested hi", "@bot:x.tested hi"),
            ("hi @bot:x.test", "hi @bot:x.test"),
            ("@bot:x.test", ""),
        ] {
            assert_eq!(without_leading_mention(&names(), body), expected);
        }
        let unnamed = OwnNames::default();
        assert_eq!(without_leading_mention(&unnamed, ": x"), ": x");
    }
}
