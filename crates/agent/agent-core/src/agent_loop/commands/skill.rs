//! The `/skill` command: lists the skills, or shows one.

use async_trait::async_trait;
use nanobot_types::CommandInfo;

use super::{Command, CommandContext, CommandReply, CommandTiming};
use crate::AgentError;

/// The `/skill` command.
#[derive(Debug)]
pub(super) struct SkillCommand;

#[async_trait]
impl Command for SkillCommand {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "skill",
            aliases: &["skills"],
            about: "Show the skills, or one of them",
            usage: "[NAME]",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let overview = context.agent().skill_overview(context.arguments).await;
        Ok(overview.map_or_else(CommandReply::refusal, CommandReply::from))
    }
}
