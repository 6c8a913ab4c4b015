//! What people are told about a slash command.

/// A slash command as help, menus and completion show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// Its name without the slash: lower-case ASCII letters, digits and `_`, at most 32 of them, so
    /// that every platform's menu takes it.
    pub name: &'static str,
    /// Other names of the same command. Menus leave them out.
    pub aliases: &'static [&'static str],
    /// What it does, in one short sentence without a full stop.
    pub about: &'static str,
    /// What may stand behind it, as in `[retry ID | drop ID]`; empty when nothing may.
    pub usage: &'static str,
}

impl CommandInfo {
    /// Whether `word`, without its slash, names this command; case does not count.
    #[must_use]
    pub fn is_named(self, word: &str) -> bool {
        self.names().any(|name| name.eq_ignore_ascii_case(word))
    }

    /// Its name and its other names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_by_each_of_its_names() {
        let new = CommandInfo {
            name: "new",
            aliases: &["reset", "clear"],
            about: "Begin anew",
            usage: "",
        };
        assert_eq!(new.names().collect::<Vec<_>>(), ["new", "reset", "clear"]);
        for (word, expected) in [
            ("NEW", true),
            ("Reset", true),
            ("newer", false),
            ("", false),
            ("/new", false),
        ] {
            assert_eq!(new.is_named(word), expected, "{word}");
        }
    }
}
