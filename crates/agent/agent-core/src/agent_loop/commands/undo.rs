//! Commands that undo, restore and repeat the last exchange of the conversation.

use async_trait::async_trait;
use nanobot_types::CommandInfo;

use super::{Command, CommandContext, CommandReply, CommandTiming};
use crate::AgentError;

/// Reply if the conversation has no exchange after its beginning or its summary.
const NOTHING: &str = "There is no message to go back to here.";

/// `/undo`: undoes the last message and what followed.
#[derive(Debug)]
pub(super) struct Undo;

#[async_trait]
impl Command for Undo {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "undo",
            aliases: &[],
            about: "Undo the last message and its reply",
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::InLane
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let by = context.message.journal_id();
        let undone = context
            .agent()
            .undo_by(context.session, by.as_ref())
            .await?;
        Ok(match undone {
            Some(report) => format!("{report}\n/redo restores it.").into(),
            None => CommandReply::refusal(NOTHING),
        })
    }
}

/// `/redo`: restores what `/undo` undid.
#[derive(Debug)]
pub(super) struct Redo;

#[async_trait]
impl Command for Redo {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "redo",
            aliases: &[],
            about: "Restore what /undo removed",
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::InLane
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let by = context.message.journal_id();
        let restored = context
            .agent()
            .redo_by(context.session, by.as_ref())
            .await?;
        Ok(if restored {
            "Restored. The conversation is as it was before /undo.".into()
        } else {
            CommandReply::refusal(
                "There is nothing to restore. /redo works until the next message.",
            )
        })
    }
}

/// `/retry`: sends the last message again, instead of its first attempt.
#[derive(Debug)]
pub(super) struct Retry;

#[async_trait]
impl Command for Retry {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "retry",
            aliases: &[],
            about: "Undo the last reply and answer the message again",
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::InLane
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let by = context.message.journal_id();
        let input = context
            .agent()
            .retry_input(context.session, by.as_ref())
            .await?;
        Ok(match input {
            Some(input) => CommandReply::retry(input),
            None => CommandReply::refusal(NOTHING),
        })
    }
}
