//! Commands that show tokens, context and memory.
//!
//! Decision: the agent produces each report; the commands only format it.

use async_trait::async_trait;
use nanobot_types::CommandInfo;

use super::{Command, CommandContext, CommandReply, CommandTiming};
use crate::AgentError;

/// `/usage`: shows token usage and the last cache miss.
#[derive(Debug)]
pub(super) struct UsageCommand;

#[async_trait]
impl Command for UsageCommand {
    fn info(&self) -> CommandInfo {
        let about = "Show tokens, cost, caps and where the prompt cache was missed";
        CommandInfo {
            name: "usage",
            aliases: &[],
            about,
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        Ok(context
            .agent()
            .usage_report(context.session)
            .await
            .to_string()
            .into())
    }
}

/// `/context`: shows the contents of the next request.
#[derive(Debug)]
pub(super) struct Context;

#[async_trait]
impl Command for Context {
    fn info(&self) -> CommandInfo {
        let about = "Show what the next request holds, with its tokens";
        CommandInfo {
            name: "context",
            aliases: &[],
            about,
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        Ok(context
            .agent()
            .context_report(context.session)
            .await?
            .to_string()
            .into())
    }
}

/// `/compact`: summarises the conversation now.
#[derive(Debug)]
pub(super) struct Compact;

#[async_trait]
impl Command for Compact {
    fn info(&self) -> CommandInfo {
        let about = "Summarise the conversation so far into memory";
        CommandInfo {
            name: "compact",
            aliases: &[],
            about,
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::InLane
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let compacting = context.agent().compact(context.session);
        match context.cancel.run_until_cancelled(compacting).await {
            Some(report) => {
                let report = report?;
                let text = report.to_string();
                if report.question.is_some() {
                    return context.asking_reply(text).await;
                }
                Ok(match report.error {
                    Some(_) => CommandReply::refusal(text),
                    None => text.into(),
                })
            }
            None => Ok("Stopped; the conversation stays as it is.".into()),
        }
    }
}

/// `/summarize`: summarises older messages that wait for consent.
#[derive(Debug)]
pub(super) struct Summarize;

#[async_trait]
impl Command for Summarize {
    fn info(&self) -> CommandInfo {
        let about = "Summarise older messages that wait for your consent, or stop that";
        CommandInfo {
            name: "summarize",
            aliases: &["summarise"],
            about,
            usage: "[stop]",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let agrees = match context.arguments {
            "" => true,
            "stop" => false,
            _ => {
                return Ok(CommandReply::refusal(
                    "/summarize takes no argument but `stop`.",
                ));
            }
        };
        let report = context
            .agent()
            .summarise_backlog(context.session, agrees)
            .await?;
        Ok(report.to_string().into())
    }
}

/// `/memory`: shows what is remembered.
#[derive(Debug)]
pub(super) struct MemoryCommand;

#[async_trait]
impl Command for MemoryCommand {
    fn info(&self) -> CommandInfo {
        let about = "Show what is remembered and what changed lately";
        CommandInfo {
            name: "memory",
            aliases: &[],
            about,
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        Ok(context
            .agent()
            .memory_overview(context.session)
            .await
            .into())
    }
}
