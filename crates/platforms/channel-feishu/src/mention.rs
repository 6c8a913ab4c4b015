//! Mentions: placeholders (`@_user_1`) in the text, and a list of the people they refer to.

use std::collections::HashMap;

use crate::wire::Mention;

/// The placeholder of everyone in a chat.
pub(crate) const EVERYONE: &str = "@_all";
/// The beginning of the placeholder of a person, before its number.
const PERSON: &str = "@_user_";
/// Most digits of that number.
const DIGITS: usize = 6;
/// Longest name that is shown, in characters.
const NAME_LIMIT: usize = 64;

/// The mentions of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mentions<'a> {
    pub(crate) list: &'a [Mention],
    /// The open id of the app's bot.
    pub(crate) bot: &'a str,
}

impl Mentions<'_> {
    /// `true` if the bot is mentioned by itself.
    pub(crate) fn has_bot(&self) -> bool {
        self.list.iter().any(|mention| self.is_bot(mention))
    }

    /// Returns a text with names in place of placeholders, without a leading mention of the bot.
    pub(crate) fn resolve(&self, text: &str) -> String {
        let placeholders = self.placeholders();
        let mut rest = text.trim_start();
        while let Some((mention, after)) = placeholders.leading(rest) {
            if !self.is_bot(mention) {
                break;
            }
            rest = after.trim_start();
        }
        let mut shown = String::with_capacity(rest.len());
        while let Some((before, _)) = rest.split_once('@') {
            let at = rest.get(before.len()..).unwrap_or_default();
            shown.push_str(before);
            if let Some((mention, after)) = placeholders.leading(at) {
                shown.push_str(&name_of(mention));
                rest = after;
            } else if let Some(after) = at.strip_prefix(EVERYONE) {
                shown.push_str("@all");
                rest = after;
            } else {
                shown.push('@');
                rest = at.get(1..).unwrap_or_default();
            }
        }
        shown.push_str(rest);
        shown.trim_end().to_owned()
    }

    fn placeholders(&self) -> Placeholders<'_> {
        let list = self.list.iter();
        Placeholders(list.map(|mention| (&*mention.key, mention)).collect())
    }

    fn is_bot(&self, mention: &Mention) -> bool {
        !self.bot.is_empty() && mention.id == self.bot
    }
}

/// Mentions by their placeholders.
struct Placeholders<'a>(HashMap<&'a str, &'a Mention>);

impl<'a> Placeholders<'a> {
    /// Returns the mention that a text begins with, and the text after it. The longest placeholder
    /// counts: `@_user_1` is the beginning of `@_user_10`.
    fn leading<'t>(&self, text: &'t str) -> Option<(&'a Mention, &'t str)> {
        let number = text.strip_prefix(PERSON)?.bytes().take(DIGITS);
        let digits = number.take_while(u8::is_ascii_digit).count();
        (1..=digits).rev().find_map(|digits| {
            let (key, after) = text.split_at_checked(PERSON.len() + digits)?;
            Some((*self.0.get(key)?, after))
        })
    }
}

fn name_of(mention: &Mention) -> String {
    let name: String = mention
        .name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(NAME_LIMIT)
        .collect();
    match name.trim() {
        "" => "@unknown".to_owned(),
        name => format!("@{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mention(key: &str, id: &str, name: &str) -> Mention {
        Mention {
            key: key.to_owned(),
            name: name.to_owned(),
            id: id.to_owned(),
        }
    }

    #[test]
    fn placeholders_become_names() {
        let list = [
            mention("@_user_1", "ou_bot", "nanobot"),
            mention("@_user_2", "ou_ann", "Ann 王"),
            mention("@_user_20", "ou_ben", "Ben\n/new"),
            mention("@_user_3", "ou_nobody", " "),
            mention("", "ou_odd", "Odd"),
            mention("@_all", "", "everyone"),
        ];
        let mentions = Mentions {
            list: &list,
            bot: "ou_bot",
        };
        let table = [
            ("@_user_1 /new", "/new"),
            (" @_user_1@_user_1  hello ", "hello"),
            ("ask @_user_1 and @_user_2", "ask @nanobot and @Ann 王"),
            ("@_user_2 @_user_1 hi", "@Ann 王 @nanobot hi"),
            ("@_user_20, @_user_3", "@Ben /new, @unknown"),
            ("a@b.test @_user_9 @", "a@b.test @_user_9 @"),
            ("@_all hello", "@all hello"),
            ("@_user_1", ""),
        ];
        for (text, shown) in table {
            assert_eq!(mentions.resolve(text), shown, "{text}");
        }
        assert!(mentions.has_bot());
        let unknown = Mentions {
            list: &list,
            bot: "",
        };
        assert!(!unknown.has_bot());
    }
}
