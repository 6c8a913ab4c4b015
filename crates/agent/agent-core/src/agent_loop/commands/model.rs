//! The command that chooses the model of a session.

use async_trait::async_trait;
use nanobot_types::CommandInfo;

use super::{Command, CommandContext, CommandReply, CommandTiming};
use crate::AgentError;

/// Name of the model of sessions without a preference.
const DEFAULT: &str = "default";

/// `/model`: shows the models of this chat, or chooses one.
#[derive(Debug)]
pub(super) struct ModelCommand;

#[async_trait]
impl Command for ModelCommand {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "model",
            aliases: &[],
            about: "Show the models of this chat, or choose one",
            usage: "[NAME|default]",
        }
    }

    /// In the lane, because a choice is recorded in the session log between turns.
    fn timing(&self) -> CommandTiming {
        CommandTiming::InLane
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let (agent, session) = (context.agent(), context.session);
        let preset = match context.arguments {
            "" => return Ok(agent.model_menu(session).await?.to_string().into()),
            DEFAULT => None,
            name => Some(name),
        };
        if agent.prefer_model(session, preset).await? {
            let menu = agent.model_menu(session).await?;
            return Ok(format!("From the next message on:\n{menu}").into());
        }
        let menu = agent.model_menu(session).await?;
        Ok(CommandReply::refusal(format!(
            "There is no such model here.\n{menu}"
        )))
    }
}
