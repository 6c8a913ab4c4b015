//! The addressee of a message: mentions, replies and commands.

use std::sync::Arc;

use nanobot_channel::CommandInfo;
use teloxide::types::{Message, MessageEntity, MessageEntityKind, MessageKind};

/// The identity of the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BotIdentity {
    pub(crate) id: u64,
    /// Without `@`.
    pub(crate) username: String,
    /// The commands that the assistant knows. They need no mention in a group.
    pub(crate) commands: Arc<[CommandInfo]>,
}

/// The command in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextCommand {
    /// No command, or an unknown one; the text without the bot's name.
    No(String),
    /// A command of the assistant, without the bot's name.
    Known(String),
    /// A command for another bot.
    Foreign,
}

impl BotIdentity {
    /// Reads a text as a command: `/name`, `/name@bot`, and what follows.
    pub(crate) fn command(&self, text: &str) -> TextCommand {
        let first = text.split_whitespace().next().unwrap_or_default();
        let rest = text.strip_prefix(first);
        let (Some(word), Some(rest)) = (first.strip_prefix('/'), rest) else {
            return TextCommand::No(text.to_owned());
        };
        let (name, bot) = word
            .split_once('@')
            .map_or((word, None), |(name, bot)| (name, Some(bot)));
        let is_word = |word: &str| !word.is_empty() && word.chars().all(is_name_character);
        if !is_word(name) || !bot.is_none_or(is_word) {
            return TextCommand::No(text.to_owned());
        }
        if bot.is_some_and(|bot| !bot.eq_ignore_ascii_case(&self.username)) {
            return TextCommand::Foreign;
        }
        let text = format!("/{name}{rest}");
        if self.commands.iter().any(|known| known.is_named(name)) {
            TextCommand::Known(text)
        } else {
            TextCommand::No(text)
        }
    }

    /// `true` if a message of a group is addressed to the bot.
    pub(crate) fn is_addressed_by(&self, message: &Message) -> bool {
        let text = message.text().or(message.caption()).unwrap_or_default();
        let entities = message
            .entities()
            .or(message.caption_entities())
            .unwrap_or_default();
        entities.iter().any(|entity| self.is_named_by(entity, text))
            || self.is_named_in(text)
            || message
                .reply_to_message()
                .is_some_and(|original| self.is_author_of(original))
    }

    /// `true` if the bot wrote a message. Service messages (a topic it created) do not count: every
    /// message of a topic is a reply to the one that began it.
    pub(crate) fn is_author_of(&self, message: &Message) -> bool {
        matches!(message.kind, MessageKind::Common(_))
            && message
                .from
                .as_ref()
                .is_some_and(|user| user.id.0 == self.id)
    }

    fn is_named_by(&self, entity: &MessageEntity, text: &str) -> bool {
        match &entity.kind {
            MessageEntityKind::Mention => utf16_slice(text, entity.offset, entity.length)
                .and_then(|mention| mention.strip_prefix('@'))
                .is_some_and(|name| name.eq_ignore_ascii_case(&self.username)),
            MessageEntityKind::TextMention { user } => user.id.0 == self.id,
            _ => false,
        }
    }

    /// `true` if a text contains `@name`, also where the platform found no mention.
    fn is_named_in(&self, text: &str) -> bool {
        text.split('@').skip(1).any(|after| {
            let end = after
                .find(|c: char| !is_name_character(c))
                .unwrap_or(after.len());
            after
                .get(..end)
                .is_some_and(|name| name.eq_ignore_ascii_case(&self.username))
        })
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The piece of a text that an entity means; offsets count UTF-16 units. `None` when they do not
/// fall between characters.
fn utf16_slice(text: &str, offset: usize, length: usize) -> Option<&str> {
    let begin = utf16_position(text, offset)?;
    let end = utf16_position(text, offset.checked_add(length)?)?;
    text.get(begin..end)
}

fn utf16_position(text: &str, units: usize) -> Option<usize> {
    let mut seen = 0;
    for (at, c) in text.char_indices() {
        if seen >= units {
            return (seen == units).then_some(at);
        }
        seen += c.len_utf16();
    }
    (seen == units).then_some(text.len())
}

/// The beginning of a text, at most so many UTF-16 units long.
pub(crate) fn utf16_head(text: &str, units: usize) -> &str {
    let mut seen = 0;
    for (at, c) in text.char_indices() {
        seen += c.len_utf16();
        if seen > units {
            return text.get(..at).unwrap_or(text);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bot() -> BotIdentity {
        let named = |name, aliases| CommandInfo {
            name,
            aliases,
            about: "",
            usage: "",
        };
        let commands = Arc::new([named("new", &["reset"]), named("stop", &[])]);
        BotIdentity {
            id: 9,
            username: "nano_bot".to_owned(),
            commands,
        }
    }

    #[test]
    fn bot_name_is_stripped_and_other_bots_are_foreign() {
        let known = |text: &str| TextCommand::Known(text.to_owned());
        let no = |text: &str| TextCommand::No(text.to_owned());
        let table = [
            ("/new", known("/new")),
            ("/new@Nano_Bot", known("/new")),
            ("/new@nano_bot  and on\n", known("/new  and on\n")),
            ("/STOP", known("/STOP")),
            ("/reset", known("/reset")),
            ("/new@other", TextCommand::Foreign),
            ("/weather@other x", TextCommand::Foreign),
            ("/weather@nano_bot x", no("/weather x")),
            ("/weather", no("/weather")),
            ("/home/me@other is a path", no("/home/me@other is a path")),
            ("/", no("/")),
            ("/new@", no("/new@")),
            ("say /new", no("say /new")),
            ("", no("")),
        ];
        for (text, command) in table {
            assert_eq!(bot().command(text), command, "{text}");
        }
    }

    #[test]
    fn bot_name_matches_whole_words_only() {
        let table = [
            ("hi @nano_bot!", true),
            ("@NANO_BOT", true),
            ("x@nano_bot", true),
            ("@nano_bot2", false),
            ("nano_bot", false),
            ("@@ @nano", false),
        ];
        for (text, named) in table {
            assert_eq!(bot().is_named_in(text), named, "{text}");
        }
    }

    #[test]
    fn slices_are_measured_in_utf16_units() {
        let table = [
            ("😀 @bot", 3, 4, Some("@bot")),
            ("日本 @bot", 3, 4, Some("@bot")),
            ("@bot", 0, 4, Some("@bot")),
            ("😀", 1, 1, None),
            ("ab", 1, 5, None),
            ("ab", 2, 0, Some("")),
            ("ab", 1, usize::MAX, None),
        ];
        for (text, offset, length, slice) in table {
            assert_eq!(
                utf16_slice(text, offset, length),
                slice,
                "{text} {offset} {length}"
            );
        }
        assert_eq!(
            [0, 1, 2, 3, 9].map(|units| utf16_head("😀ab", units)),
            ["", "", "😀", "😀a", "😀ab"]
        );
    }
}
