//! `/pairing`: approves people by their pairing code, and revokes approvals.
//!
//! Decision: in a chat the command affects its own channel only. It works in direct chats only, for
//! senders that a list or an approval names; `*` is not enough. At a terminal it affects every
//! channel.

use async_trait::async_trait;
use chrono::Utc;
use nanobot_agent_core::{AgentError, Command, CommandContext, CommandReply, CommandTiming};
use nanobot_channel::ChannelName;
use nanobot_channels::{PairingError, Pairings, Person};
use nanobot_control::TERMINAL_CHANNEL;
use nanobot_types::{ChatKind, CommandInfo, InboundMessage};

use crate::RuntimeError;
use crate::assembly::access::{HomeAccess, Revoked};

const USAGE: &str = "/pairing lists who waits and who was approved; /pairing approve CODE approves a person; \
                     /pairing deny CODE does not; /pairing revoke ID takes it back.";

const FAILED: &str = "That went wrong; the log says why.";

/// Description of the command.
pub(crate) const INFO: CommandInfo = CommandInfo {
    name: "pairing",
    aliases: &[],
    about: "Approve a person by their code",
    usage: "[list|approve CODE|deny CODE|revoke ID]",
};

/// The `/pairing` command.
#[derive(Clone, Debug)]
pub(crate) struct PairingCommand {
    pub(crate) access: HomeAccess,
}

#[async_trait]
impl Command for PairingCommand {
    fn info(&self) -> CommandInfo {
        INFO
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let (access, message) = (self.access.clone(), context.message.clone());
        let arguments = context.arguments.to_owned();
        let answer =
            tokio::task::spawn_blocking(move || answer(&access, &message, &arguments)).await;
        Ok(answer.unwrap_or_else(|_| CommandReply::refusal(FAILED)))
    }
}

fn answer(access: &HomeAccess, message: &InboundMessage, arguments: &str) -> CommandReply {
    if message.chat != Some(ChatKind::Direct) {
        return CommandReply::refusal("/pairing works in private chats only. Send it to me there.");
    }
    // The terminal belongs to the owner of the home.
    let only = (message.channel.as_str() != TERMINAL_CHANNEL).then_some(&message.channel);
    if only.is_some() {
        match access.may_approve(&message.channel, &message.sender_id) {
            Ok(true) => {}
            Ok(false) => {
                return CommandReply::refusal(
                    "Only people who were approved, or are named in allowFrom, may do that.",
                );
            }
            Err(error) => return log_failure(&error),
        }
    }
    let by = only.map(|channel| Person {
        channel: channel.clone(),
        sender: message.sender_id.clone(),
    });
    match execute(access, only, by.as_ref(), arguments) {
        Ok(answer) => answer,
        Err(RuntimeError::Pairing(PairingError::UnknownCode)) => CommandReply::refusal(
            "Unknown code: it was mistyped, is older than ten minutes, or was used already. \
             /pairing lists the open codes.",
        ),
        Err(error) => log_failure(&error),
    }
}

/// Logs the error and answers without it: it may contain paths, which do not belong in a chat.
fn log_failure(error: &RuntimeError) -> CommandReply {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "/pairing failed");
    CommandReply::refusal(FAILED)
}

fn execute(
    access: &HomeAccess,
    only: Option<&ChannelName>,
    by: Option<&Person>,
    arguments: &str,
) -> Result<CommandReply, RuntimeError> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    Ok(match (words.as_slice(), only) {
        ([] | ["list"], _) => format_list(&access.pairing().list(Utc::now())?, only).into(),
        (["approve", code @ ..], _) if !code.is_empty() => {
            let person = access.approve(&code.concat(), only, by)?;
            tracing::info!(channel = %person.channel, sender = %person.sender, "approved a person in a chat");
            let (channel, sender) = (&person.channel, literal(person.sender.as_str()));
            match access.is_admitted(&person, true) {
                Ok(Some(false)) => format!(
                    "{sender} is approved on {channel}, but the configuration of that channel still keeps them out."
                )
                .into(),
                _ => format!("{sender} is approved on {channel} and can write to me now.").into(),
            }
        }
        (["deny", code @ ..], _) if !code.is_empty() => {
            let Person { channel, sender } = access.deny(&code.concat(), only, by)?;
            format!("{} on {channel} is not let in.", literal(sender.as_str())).into()
        }
        (["revoke", id], Some(channel)) => revoke(access, channel, id, by)?,
        (["revoke", channel, id], None) => revoke(access, &ChannelName::from(*channel), id, by)?,
        (["revoke", channel, id], Some(only)) if *channel == only.as_str() => {
            revoke(access, only, id, by)?
        }
        (["revoke", ..], None) => {
            CommandReply::refusal("/pairing revoke CHANNEL ID takes an approval back.")
        }
        _ => CommandReply::refusal(USAGE),
    })
}

fn revoke(
    access: &HomeAccess,
    channel: &ChannelName,
    id: &str,
    by: Option<&Person>,
) -> Result<CommandReply, RuntimeError> {
    let person = Person {
        channel: channel.clone(),
        sender: id.into(),
    };
    let revoked = access.revoke(&person, by)?;
    tracing::info!(%channel, sender = id, ?revoked, "a chat asked to revoke an approval");
    let id = literal(id);
    Ok(match revoked {
        Revoked::Done => format!("{id} is not let in on {channel} any more.").into(),
        Revoked::StillLetIn => {
            format!("The configuration of {channel} lets {id} in, so they still are.").into()
        }
        Revoked::WasNotApproved => CommandReply::refusal(format!(
            "{id} was not approved on {channel}. /pairing lists who was."
        )),
    })
}

/// Formats an id as code, so that markup in it is shown literally.
fn literal(id: &str) -> String {
    format!(
        "`{}`",
        id.chars()
            .filter(|c| !c.is_control() && *c != '`')
            .collect::<String>()
    )
}

fn format_list(pairings: &Pairings, only: Option<&ChannelName>) -> String {
    let is_in_scope = |person: &Person| only.is_none_or(|channel| person.channel == *channel);
    let waiting = pairings
        .pending
        .iter()
        .filter(|pending| is_in_scope(&pending.person))
        .map(|pending| {
            let Person { channel, sender } = &pending.person;
            format!(
                "· `{}` · {channel} · {}",
                pending.code,
                literal(sender.as_str())
            )
        });
    let approved = pairings
        .approved
        .iter()
        .filter(|person| is_in_scope(person));
    let approved = approved
        .map(|person| format!("· {} · {}", person.channel, literal(person.sender.as_str())));
    let (waiting, approved): (Vec<_>, Vec<_>) = (waiting.collect(), approved.collect());
    let block = |title: &str, lines: &[String]| match lines {
        [] => format!("{title}: nobody"),
        lines => format!("{title}:\n{}", lines.join("\n")),
    };
    format!(
        "{}\n{}\n{USAGE}",
        block("Waiting", &waiting),
        block("Approved", &approved)
    )
}
