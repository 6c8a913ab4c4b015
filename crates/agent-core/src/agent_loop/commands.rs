//! Slash commands: what a person says to the assistant about itself.
//!
//! Decision: a table. A command acts at once or waits in the lane of its session; which of the
//! two is all the loop has to know about it.

/// When a command acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// At once, also while a turn runs.
    Now,
    /// In the session's lane, behind what came before it.
    InLane,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Begins a new conversation.
    New,
    /// Copies the conversation into a session of its own.
    Branch,
    /// Stops what runs.
    Stop,
    /// Lists the commands.
    Help,
    /// Says how things are.
    Status,
    /// Shows what is not settled, or does something about it.
    Pending,
    /// Greets.
    Start,
}

impl Command {
    /// When it acts.
    pub(super) fn when(self) -> When {
        match self {
            Self::New | Self::Branch => When::InLane,
            Self::Stop | Self::Help | Self::Status | Self::Pending | Self::Start => When::Now,
        }
    }
}

/// A command as help and completion show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// The command with its slash.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// The commands every channel understands.
pub const COMMANDS: [CommandInfo; 8] = [
    CommandInfo { name: "/new", about: "Start a new conversation" },
    CommandInfo { name: "/reset", about: "The same as /new" },
    CommandInfo { name: "/clear", about: "The same as /new" },
    CommandInfo { name: "/branch", about: "Copy this conversation, to go on with the copy at a terminal" },
    CommandInfo { name: "/stop", about: "Stop the current task" },
    CommandInfo { name: "/status", about: "Show model, tokens and what is running" },
    CommandInfo { name: "/pending", about: "Show messages that are not settled; also retry ID, drop ID" },
    CommandInfo { name: "/help", about: "Show the commands" },
];

/// What a message is to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A command.
    Command(Command),
    /// Looks like a command, but there is none of that name.
    Unknown(&'a str),
    /// For the model.
    Text,
}

/// Reads a message: trimmed, case ignored, whole (but for `/pending`, which has arguments), an
/// `@botname` behind the command ignored.
pub(super) fn parse(content: &str) -> Parsed<'_> {
    let trimmed = content.trim();
    let Some(word) = trimmed.strip_prefix('/') else { return Parsed::Text };
    let whole = word.split('@').next().unwrap_or(word);
    let name = match word.split(['@', ' ', '\n']).next() {
        Some(first) if first.eq_ignore_ascii_case("pending") => first,
        _ => whole,
    };
    match name.to_ascii_lowercase().as_str() {
        "new" | "reset" | "clear" => Parsed::Command(Command::New),
        "branch" => Parsed::Command(Command::Branch),
        "stop" => Parsed::Command(Command::Stop),
        "help" => Parsed::Command(Command::Help),
        "status" => Parsed::Command(Command::Status),
        "pending" => Parsed::Command(Command::Pending),
        "start" => Parsed::Command(Command::Start),
        other
            if !other.is_empty()
                && other.chars().all(|character| character.is_ascii_lowercase() || character == '-') =>
        {
            Parsed::Unknown(trimmed)
        }
        _ => Parsed::Text,
    }
}

/// The answer to `/help`.
pub(super) fn help() -> String {
    let lines: Vec<String> = COMMANDS.iter().map(|command| format!("{} — {}", command.name, command.about)).collect();
    format!("🐈 nanobot commands:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_whole_messages() {
        for (content, parsed) in [
            ("/new", Parsed::Command(Command::New)),
            (" /RESET \n", Parsed::Command(Command::New)),
            ("/clear@my_bot", Parsed::Command(Command::New)),
            ("/Branch", Parsed::Command(Command::Branch)),
            ("/stop", Parsed::Command(Command::Stop)),
            ("/pending", Parsed::Command(Command::Pending)),
            ("/Pending@my_bot retry 7", Parsed::Command(Command::Pending)),
            ("/stop now please", Parsed::Text),
            ("/etc/hosts", Parsed::Text),
            ("/frobnicate", Parsed::Unknown("/frobnicate")),
            ("stop", Parsed::Text),
            ("/", Parsed::Text),
        ] {
            assert_eq!(parse(content), parsed, "{content:?}");
        }
    }
}
