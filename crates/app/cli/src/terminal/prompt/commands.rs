//! Commands of the prompt itself, beside those of the assistant.

/// A command of the prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct PromptCommand {
    /// Name without the slash.
    pub(super) name: &'static str,
    /// Syntax of its arguments; empty if it takes none.
    pub(super) usage: &'static str,
    /// One short sentence on what it does.
    pub(super) about: &'static str,
    pub(super) action: PromptAction,
}

/// The effect of a command of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptAction {
    /// Copies the last reply to the clipboard of the terminal.
    Copy,
    /// Deletes a conversation.
    Delete,
    /// Shows the changes of files in the last turn.
    Diff,
    /// Opens the typed text in an editor.
    Edit,
    /// Writes the conversation to a file.
    Export,
    /// Shows the tools of the last turn with their results.
    Last,
    /// Opens a new conversation.
    New,
    /// Names the conversation.
    Rename,
    /// Restores a deleted conversation.
    Restore,
    /// Lists conversations, or opens one.
    Sessions,
}

/// All commands of the prompt.
pub(super) const PROMPT_COMMANDS: [PromptCommand; 10] = [
    PromptCommand {
        name: "copy",
        usage: "",
        about: "Copy the last reply to the clipboard",
        action: PromptAction::Copy,
    },
    PromptCommand {
        name: "delete",
        usage: "[KEY]",
        about: "Delete this conversation, or another; /restore brings it back",
        action: PromptAction::Delete,
    },
    PromptCommand {
        name: "diff",
        usage: "",
        about: "Show the file changes of the last turn",
        action: PromptAction::Diff,
    },
    PromptCommand {
        name: "edit",
        usage: "[TEXT]",
        about: "Write the message in $EDITOR (Ctrl-G)",
        action: PromptAction::Edit,
    },
    PromptCommand {
        name: "export",
        usage: "[FILE]",
        about: "Write this conversation to a file (.md or .jsonl)",
        action: PromptAction::Export,
    },
    PromptCommand {
        name: "last",
        usage: "",
        about: "Show the tools of the last turn with their results (Ctrl-O)",
        action: PromptAction::Last,
    },
    PromptCommand {
        name: "new",
        usage: "NAME",
        about: "Open a conversation of that name",
        action: PromptAction::New,
    },
    PromptCommand {
        name: "rename",
        usage: "[NAME]",
        about: "Name this conversation",
        action: PromptAction::Rename,
    },
    PromptCommand {
        name: "restore",
        usage: "[KEY]",
        about: "Bring a deleted conversation back",
        action: PromptAction::Restore,
    },
    PromptCommand {
        name: "sessions",
        usage: "[NUMBER|KEY|WORDS]",
        about: "List conversations, open one, or search",
        action: PromptAction::Sessions,
    },
];

/// The keys of the prompt, for `/help`.
const KEYS: &str = "\
- Enter: send; while a turn runs, into this turn
- Tab: complete commands, conversations, @files and $skills; while a turn runs, queue the message or command until its end
- @path, quoted if it has spaces: attach the file
- Alt-Enter, Ctrl-J, or a backslash at the end: begin a new line
- Up, Down, Ctrl-R: earlier messages of all conversations, and search in them
- Ctrl-G: write the message in $EDITOR
- Ctrl-O: the tools of the last turn with their results
- Ctrl-C: clear the text, stop the turn, leave; Ctrl-D: leave
- Ctrl-L: clear the screen; Ctrl-Z: suspend; Ctrl-_: undo; Ctrl-A, E, K, U, W, Y: as in a shell
";

/// Returns the command of a line and its argument; `None` if the prompt has no such command.
pub(super) fn prompt_command(line: &str) -> Option<(PromptAction, &str)> {
    let line = line.trim().strip_prefix('/')?;
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = PROMPT_COMMANDS
        .iter()
        .find(|command| command.name.eq_ignore_ascii_case(name))?;
    let argument = argument.trim();
    // Without a name, /new begins again in the same conversation.
    if command.action == PromptAction::New && argument.is_empty() {
        return None;
    }
    Some((command.action, argument))
}

/// Returns the help on the prompt's own commands and keys, in Markdown.
pub(super) fn help() -> String {
    let commands = PROMPT_COMMANDS.map(|command| {
        let usage = command.usage;
        let space = if usage.is_empty() { "" } else { " " };
        format!("- `/{}{space}{usage}`: {}\n", command.name, command.about)
    });
    format!(
        "**Commands of this prompt**\n\n{}\n**Keys**\n\n{KEYS}\n",
        commands.concat()
    )
}

#[cfg(test)]
mod tests {
    use nanobot_runtime::command_infos;

    use super::*;

    #[test]
    fn commands_of_the_prompt_are_recognised() {
        assert_eq!(prompt_command(" /LAST "), Some((PromptAction::Last, "")));
        assert_eq!(
            prompt_command("/diff all"),
            Some((PromptAction::Diff, "all"))
        );
        assert_eq!(
            prompt_command("/new trip"),
            Some((PromptAction::New, "trip"))
        );
        assert_eq!(prompt_command("/new"), None);
        assert_eq!(prompt_command("/stop"), None);
        assert_eq!(prompt_command("last"), None);
    }

    #[test]
    fn no_command_hides_one_of_the_assistant() {
        for command in PROMPT_COMMANDS
            .iter()
            .filter(|command| command.name != "new")
        {
            let hidden = command_infos()
                .iter()
                .any(|info| info.is_named(command.name));
            assert!(!hidden, "/{}", command.name);
        }
    }
}
