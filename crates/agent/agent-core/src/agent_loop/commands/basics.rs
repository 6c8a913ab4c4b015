//! Commands about the conversation and the assistant as a whole.

use async_trait::async_trait;
use nanobot_types::CommandInfo;

use super::{ANY_TEXT, Command, CommandContext, CommandReply, CommandTiming};
use crate::{AgentError, ContextReport};

/// Maximum length of a command's name on platforms that list commands.
const MAX_NAME: usize = 32;

/// `/new`: begins a new conversation.
#[derive(Debug)]
pub(super) struct New;

#[async_trait]
impl Command for New {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "new",
            aliases: &["reset", "clear"],
            about: "Start a new conversation",
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::InLaneAfterStop
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let question = context.agent().reset(context.session).await?;
        let Some(question) = question else {
            return Ok("New session started.".into());
        };
        let text = format!("New session started.\n\n{question}");
        context.asking_reply(text).await
    }
}

/// `/branch`: copies the conversation.
#[derive(Debug)]
pub(super) struct Branch;

#[async_trait]
impl Command for Branch {
    fn info(&self) -> CommandInfo {
        let about = "Copy this conversation, to go on with the copy at a terminal";
        CommandInfo {
            name: "branch",
            aliases: &[],
            about,
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::InLane
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let Some(copy) = context.agent().branch(context.session).await? else {
            return Ok(CommandReply::refusal("There is nothing to copy yet."));
        };
        // No shell command: the name of a chat may come from a stranger.
        let answer = format!(
            "This conversation goes on here. A copy of it is {copy}: go on with that at a terminal by\n\
             `/sessions {copy}` in `nanobot agent`"
        );
        Ok(answer.into())
    }
}

/// `/stop`: stops the running turn. It ignores any text after it, because a person who writes this
/// wants everything to stop.
#[derive(Debug)]
pub(super) struct Stop;

#[async_trait]
impl Command for Stop {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "stop",
            aliases: &[],
            about: "Stop the current task",
            usage: ANY_TEXT,
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        Ok(match context.stop() {
            0 => "No active task to stop.".into(),
            count => format!("Stopped {count} task(s).").into(),
        })
    }
}

/// `/status`: shows the state of the session and the assistant.
#[derive(Debug)]
pub(super) struct Status;

#[async_trait]
impl Command for Status {
    fn info(&self) -> CommandInfo {
        let about = "Show model, tokens and what is running";
        CommandInfo {
            name: "status",
            aliases: &[],
            about,
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let of_session = context.agent().describe(context.session).await;
        let filled = match context.agent().context_report(context.session).await {
            Ok(report) => filled(&report),
            Err(error) => format!("unreadable ({error})"),
        };
        let minutes = context.uptime().as_secs() / 60;
        let answer = format!(
            "🐈 nanobot {}\n{of_session}\nContext: {filled}\nActive tasks: {}\nUptime: {} h {} min",
            env!("CARGO_PKG_VERSION"),
            context.active_tasks(),
            minutes / 60,
            minutes % 60
        );
        Ok(answer.into())
    }
}

/// Returns how full the model's window is.
fn filled(report: &ContextReport) -> String {
    let total = report.total();
    match report.budget {
        0 => format!("about {total} tokens, no limit"),
        budget => format!(
            "about {total} of {budget} tokens ({} %)",
            total * 100 / budget
        ),
    }
}

/// `/help`: lists the commands, or describes one.
#[derive(Debug)]
pub(super) struct Help;

#[async_trait]
impl Command for Help {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "help",
            aliases: &[],
            about: "Show the commands",
            usage: "[COMMAND]",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let commands = context.commands();
        let word = context.arguments.trim_start_matches('/');
        if word.is_empty() {
            let lines: Vec<String> = commands.infos().map(|info| line(&info)).collect();
            return Ok(format!("🐈 nanobot commands:\n{}", lines.join("\n")).into());
        }
        Ok(match commands.find(word) {
            Some(command) => line(&command.info()).into(),
            None => CommandReply::refusal(commands.unknown(&name_of(word))),
        })
    }
}

/// Returns a text as the name of a command, without what a name cannot contain.
fn name_of(text: &str) -> String {
    let is_of_name = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.chars()
        .take_while(|c| !c.is_whitespace())
        .filter(is_of_name)
        .take(MAX_NAME)
        .collect()
}

/// Formats a command for `/help`.
fn line(info: &CommandInfo) -> String {
    let usage = if matches!(info.usage, "" | ANY_TEXT) {
        String::new()
    } else {
        format!(" {}", info.usage)
    };
    let aliases: String = info
        .aliases
        .iter()
        .map(|name| format!(", /{name}"))
        .collect();
    format!("/{}{usage}{aliases} — {}", info.name, info.about)
}

/// `/start`: sent by platforms when a person opens the chat.
#[derive(Debug)]
pub(super) struct Start;

#[async_trait]
impl Command for Start {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "start",
            aliases: &[],
            about: "Say hello",
            usage: ANY_TEXT,
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, _: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        Ok("Hi, I am nanobot. Write to me, or try /help.".into())
    }
}
