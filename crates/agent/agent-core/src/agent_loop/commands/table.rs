//! The table of commands, and the parser of command messages.

use std::sync::Arc;

use nanobot_types::{CommandInfo, InboundMessage, Origin};

use super::nearest::nearest;
use super::{Command, agents, basics, model, pending, reports, skill, undo};

/// Two commands have the same name.
#[derive(Debug, thiserror::Error)]
#[error("there are two commands named /{name}")]
pub struct DuplicateCommand {
    /// The name.
    pub name: &'static str,
}

/// The commands of an assistant, in the order in which help shows them.
#[derive(Clone, Debug)]
pub struct CommandTable {
    commands: Vec<Arc<dyn Command>>,
}

impl CommandTable {
    /// Returns the built-in commands.
    #[must_use]
    pub fn built_in() -> Self {
        let commands: [Arc<dyn Command>; 18] = [
            Arc::new(basics::New),
            Arc::new(undo::Undo),
            Arc::new(undo::Redo),
            Arc::new(undo::Retry),
            Arc::new(basics::Stop),
            Arc::new(basics::Status),
            Arc::new(model::ModelCommand),
            Arc::new(reports::UsageCommand),
            Arc::new(reports::Context),
            Arc::new(reports::Compact),
            Arc::new(reports::Summarize),
            Arc::new(reports::MemoryCommand),
            Arc::new(skill::SkillCommand),
            Arc::new(agents::Agents),
            Arc::new(basics::Branch),
            Arc::new(pending::Pending),
            Arc::new(basics::Help),
            Arc::new(basics::Start),
        ];
        Self {
            commands: commands.into(),
        }
    }

    /// Adds commands.
    ///
    /// # Errors
    /// Returns [`DuplicateCommand`] if a name is taken.
    pub fn with(
        mut self,
        more: impl IntoIterator<Item = Arc<dyn Command>>,
    ) -> Result<Self, DuplicateCommand> {
        for command in more {
            if let Some(name) = command
                .info()
                .names()
                .find(|name| self.find(name).is_some())
            {
                return Err(DuplicateCommand { name });
            }
            self.commands.push(command);
        }
        Ok(self)
    }

    /// Returns the names and help texts of the commands.
    pub fn infos(&self) -> impl Iterator<Item = CommandInfo> {
        self.commands.iter().map(|command| command.info())
    }

    /// Returns `true` if a line that a person typed is a command, known or not, and therefore not a
    /// message to the model.
    #[must_use]
    pub fn is_command(&self, line: &str) -> bool {
        !matches!(self.parse(line), Parsed::Text)
    }

    pub(super) fn find(&self, word: &str) -> Option<&Arc<dyn Command>> {
        self.commands
            .iter()
            .find(|command| command.info().is_named(word))
    }

    /// Classifies a message. Only people give commands.
    pub(in crate::agent_loop) fn read<'a>(&'a self, message: &'a InboundMessage) -> Parsed<'a> {
        match message.origin {
            Origin::User => self.parse(&message.content),
            Origin::Cron { .. } | Origin::Heartbeat | Origin::Subagent { .. } => Parsed::Text,
        }
    }

    /// Parses a text. Surrounding whitespace, case, and a `@botname` suffix are ignored. A text
    /// whose first word after the slash is not a plain ASCII word (a path, a number, another
    /// script) is no command.
    fn parse<'a>(&'a self, content: &'a str) -> Parsed<'a> {
        let Some(line) = content.trim().strip_prefix('/') else {
            return Parsed::Text;
        };
        let (first, arguments) = match line.split_once(char::is_whitespace) {
            Some((first, arguments)) => (first, arguments.trim()),
            None => (line, ""),
        };
        let (word, bot) = first.split_once('@').unwrap_or((first, ""));
        let is_word = |word: &str| {
            word.chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        if !(word.starts_with(|c: char| c.is_ascii_alphabetic()) && is_word(word) && is_word(bot)) {
            return Parsed::Text;
        }
        match self.find(word) {
            Some(command) if arguments.is_empty() || !command.info().usage.is_empty() => {
                Parsed::Command { command, arguments }
            }
            Some(command) => Parsed::Misused(command.info()),
            None => Parsed::Unknown(word),
        }
    }

    /// Returns the reply to an unknown command.
    pub(in crate::agent_loop) fn unknown(&self, word: &str) -> String {
        let names = self
            .commands
            .iter()
            .flat_map(|command| command.info().names());
        match nearest(word, names) {
            Some(name) => {
                format!(
                    "There is no command /{word}. Did you mean /{name}? /help lists the commands."
                )
            }
            None => format!("There is no command /{word}. /help lists the commands."),
        }
    }
}

/// The classification of a message.
#[derive(Debug)]
pub(in crate::agent_loop) enum Parsed<'a> {
    /// A command and the text after it.
    Command {
        command: &'a Arc<dyn Command>,
        arguments: &'a str,
    },
    /// A command that takes no arguments, given with arguments.
    Misused(CommandInfo),
    /// An unknown command.
    Unknown(&'a str),
    /// A message for the model.
    Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parsed: &Parsed<'_>) -> String {
        match parsed {
            Parsed::Command { command, arguments } => {
                format!("{} {arguments}", command.info().name)
                    .trim()
                    .to_owned()
            }
            Parsed::Misused(info) => format!("misused {}", info.name),
            Parsed::Unknown(word) => format!("unknown {word}"),
            Parsed::Text => "text".to_owned(),
        }
    }

    #[test]
    fn parses_commands_after_a_slash() {
        let table = CommandTable::built_in();
        for (content, expected) in [
            ("/new", "new"),
            (" /RESET \n", "new"),
            ("/clear@my_bot", "new"),
            ("/Branch", "branch"),
            ("/stop", "stop"),
            ("/stop now please", "stop now please"),
            ("/new please", "misused new"),
            ("/start deep-link", "start deep-link"),
            ("/pending", "pending"),
            ("/Pending@my_bot  retry 7 ", "pending retry 7"),
            ("/pending\nretry 7", "pending retry 7"),
            ("/frobnicate", "unknown frobnicate"),
            ("/frobnicate the widget", "unknown frobnicate"),
            ("/etc/hosts is a file", "text"),
            ("/home/me@other", "text"),
            ("/2 + 2", "text"),
            ("/привет", "text"),
            ("/新 對話", "text"),
            ("what does /new do?", "text"),
            ("stop", "text"),
            ("// a comment", "text"),
            ("/", "text"),
            ("/ new", "text"),
            ("", "text"),
        ] {
            assert_eq!(shown(&table.parse(content)), expected, "{content:?}");
            assert_eq!(table.is_command(content), expected != "text", "{content:?}");
        }
    }

    #[test]
    fn only_user_messages_are_commands() {
        let table = CommandTable::built_in();
        let mut message = InboundMessage::text("telegram", "ann", "1", "/stop");
        assert_eq!(shown(&table.read(&message)), "stop");
        for origin in [
            Origin::Cron { job: "j".into() },
            Origin::Heartbeat,
            Origin::Subagent { id: "s".to_owned() },
        ] {
            message.origin = origin;
            assert_eq!(shown(&table.read(&message)), "text", "{:?}", message.origin);
        }
    }

    #[test]
    fn unknown_command_reply_suggests_the_nearest_one() {
        let table = CommandTable::built_in();
        for (word, expected) in [
            (
                "stat",
                "There is no command /stat. Did you mean /status? /help lists the commands.",
            ),
            (
                "frobnicate",
                "There is no command /frobnicate. /help lists the commands.",
            ),
        ] {
            assert_eq!(table.unknown(word), expected);
        }
    }

    #[test]
    fn command_names_are_unique_and_fit_platform_menus() {
        let twice = CommandTable::built_in().with([Arc::new(basics::New) as Arc<dyn Command>]);
        assert_eq!(
            twice.unwrap_err().to_string(),
            "there are two commands named /new"
        );
        for info in CommandTable::built_in().infos() {
            for name in info.names() {
                let fits = name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                assert!(fits && (1..=32).contains(&name.len()), "{name}");
            }
            assert!(
                (3..=100).contains(&info.about.len()) && !info.about.ends_with('.'),
                "{info:?}"
            );
        }
    }
}
