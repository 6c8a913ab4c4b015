//! Description of slash commands for help, menus and completion.

/// A slash command as shown in help, menus and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// Name without the slash: at most 32 lower-case ASCII letters, digits and `_`, so that every
    /// platform's menu accepts it.
    pub name: &'static str,
    /// Aliases. Menus leave them out.
    pub aliases: &'static [&'static str],
    /// One short sentence on what it does, without a full stop.
    pub about: &'static str,
    /// Syntax of the arguments, as in `[retry ID | drop ID]`; empty if it takes none.
    pub usage: &'static str,
}

impl CommandInfo {
    /// `true` if `word`, given without its slash, is the name or an alias of this command, ignoring
    /// ASCII case.
    #[must_use]
    pub fn is_named(self, word: &str) -> bool {
        self.names().any(|name| name.eq_ignore_ascii_case(word))
    }

    /// Returns the name, then the aliases.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_matches_its_name_and_aliases() {
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
