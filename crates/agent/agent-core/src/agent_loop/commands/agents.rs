//! The `/agents` command: lists and stops the subagents of a conversation.
//!
//! Decision: a chat sees and stops only the subagents that its session started.

use async_trait::async_trait;
use nanobot_types::{CommandInfo, SessionKey};

use super::{Command, CommandContext, CommandReply, CommandTiming};
use crate::{AgentError, SubagentInfo, SubagentState, Subagents};

const USAGE: &str = "/agents lists those at work for this chat; /agents stop ID stops one.";

/// The `/agents` command.
#[derive(Debug)]
pub(super) struct Agents;

#[async_trait]
impl Command for Agents {
    fn info(&self) -> CommandInfo {
        let about = "Show the subagents that are at work, or stop one";
        CommandInfo {
            name: "agents",
            aliases: &[],
            about,
            usage: "[stop ID]",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        Ok(match context.agent().subagents() {
            Some(subagents) => answer(subagents, context.session, context.arguments),
            None => CommandReply::refusal("This assistant has no subagents."),
        })
    }
}

fn answer(subagents: &Subagents, session: &SessionKey, arguments: &str) -> CommandReply {
    match arguments.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] | ["list"] => list(&subagents.of_session(session)).into(),
        ["stop", id] if subagents.stop(session, id) => format!("Subagent {id} is stopped.").into(),
        ["stop", id] => CommandReply::refusal(format!(
            "No subagent {id} is at work for this chat. /agents lists them."
        )),
        _ => CommandReply::refusal(USAGE),
    }
}

fn list(infos: &[SubagentInfo]) -> String {
    if infos.is_empty() {
        return "No subagents are at work for this chat.".to_owned();
    }
    let lines: Vec<String> = infos.iter().map(line).collect();
    format!("Subagents of this chat:\n{}\n{USAGE}", lines.join("\n"))
}

fn line(info: &SubagentInfo) -> String {
    let state = match info.state {
        SubagentState::Waiting => "waits",
        SubagentState::Working => "works",
        SubagentState::Reporting => "reports",
    };
    let seconds = info.since.as_secs();
    let since = if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min", seconds / 60)
    };
    let tool = info
        .last_tool
        .as_ref()
        .map(|tool| format!(" · {tool}"))
        .unwrap_or_default();
    format!("{} · {} · {state} · {since}{tool}", info.id, info.label)
}
