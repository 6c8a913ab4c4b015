//! The `/pending` command: lists the unsettled messages of a chat, and retries or drops them.
//!
//! Decision: a chat sees and changes only its own entries, and the command's own message is not
//! listed. Only the newest entries of the ledger are searched; `nanobot inbox` shows everything.

use async_trait::async_trait;
use nanobot_bus::{BusError, EntryState, Ledger, LedgerEntry, LedgerFilter, Queue};
use nanobot_types::{ChannelName, ChatId, CommandInfo, InboundMessage};

use super::{Command, CommandContext, CommandReply, CommandTiming};
use crate::{AgentError, SubagentTask};

/// Maximum number of entries searched per queue and state.
const MAX_SEARCHED: usize = 1000;
/// Maximum number of entries shown.
const MAX_SHOWN: usize = 20;
/// Maximum number of characters shown of a message.
const EXCERPT: usize = 60;

const USAGE: &str = "/pending lists what is not settled here; /pending retry ID tries it again; /pending drop ID gives it up.";

/// The `/pending` command.
#[derive(Debug)]
pub(super) struct Pending;

#[async_trait]
impl Command for Pending {
    fn info(&self) -> CommandInfo {
        let about = "Show messages that are not settled, and try them again or give them up";
        CommandInfo {
            name: "pending",
            aliases: &[],
            about,
            usage: "[retry ID | drop ID]",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        Ok(answer(context.ledger(), context.message, context.arguments).await)
    }
}

/// The requested action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingAction<'a> {
    List,
    Retry(&'a str),
    Drop(&'a str),
    Else,
}

fn read(arguments: &str) -> PendingAction<'_> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    match words.as_slice() {
        [] | ["list"] => PendingAction::List,
        ["retry", id] => PendingAction::Retry(id),
        ["drop", id] => PendingAction::Drop(id),
        _ => PendingAction::Else,
    }
}

/// Performs the requested action and returns the reply.
async fn answer(ledger: &dyn Ledger, message: &InboundMessage, arguments: &str) -> CommandReply {
    let done = match read(arguments) {
        PendingAction::List => list(ledger, message).await.map(CommandReply::from),
        PendingAction::Retry(id) => change(ledger, message, id, PendingChange::Retry).await,
        PendingAction::Drop(id) => change(ledger, message, id, PendingChange::Drop).await,
        PendingAction::Else => Ok(CommandReply::refusal(USAGE)),
    };
    done.unwrap_or_else(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "could not query the ledger for a person"
        );
        CommandReply::refusal(format!("That does not work now: {error}."))
    })
}

async fn list(ledger: &dyn Ledger, message: &InboundMessage) -> Result<String, BusError> {
    let mut entries = Vec::new();
    for queue in [Queue::Inbound, Queue::Outbound] {
        for filter in [
            LedgerFilter::Open,
            LedgerFilter::Uncertain,
            LedgerFilter::Failed,
        ] {
            entries.extend(ledger.list(queue, filter, MAX_SEARCHED).await?);
        }
    }
    entries.retain(|entry| belongs(entry, message) && !is_itself(entry, message));
    if entries.is_empty() {
        return Ok("Everything in this chat is settled.".to_owned());
    }
    entries.sort_by_key(|entry| entry.accepted_at);
    let more = entries.len().saturating_sub(MAX_SHOWN);
    let mut lines: Vec<String> = entries.iter().skip(more).map(line).collect();
    if more > 0 {
        lines.insert(0, format!("({more} older ones are not shown)"));
    }
    Ok(format!(
        "Not settled in this chat:\n{}\n{USAGE}",
        lines.join("\n")
    ))
}

#[derive(Clone, Copy, Debug)]
enum PendingChange {
    Retry,
    Drop,
}

async fn change(
    ledger: &dyn Ledger,
    message: &InboundMessage,
    id: &str,
    change: PendingChange,
) -> Result<CommandReply, BusError> {
    let unknown = || {
        CommandReply::refusal(format!(
            "This chat has no entry {id}. /pending lists what there is."
        ))
    };
    match ledger.show(id).await {
        Ok(entry) if belongs(&entry, message) => {}
        Ok(_) | Err(BusError::Unknown { .. }) => return Ok(unknown()),
        Err(error) => return Err(error),
    }
    let (changed, done) = match change {
        PendingChange::Retry => (ledger.retry(id).await, "is tried again"),
        PendingChange::Drop => (ledger.discard(id).await, "is given up"),
    };
    match changed {
        Ok(()) => Ok(format!("Entry {id} {done}.").into()),
        Err(BusError::Unknown { .. }) => Ok(unknown()),
        Err(BusError::Conflict { state, .. }) => Ok(CommandReply::refusal(format!(
            "Entry {id} is {state}; there is nothing to do about it."
        ))),
        Err(error) => Err(error),
    }
}

fn chat_of(entry: &LedgerEntry) -> Option<(&ChannelName, &ChatId)> {
    let inbound = entry
        .inbound
        .as_ref()
        .map(|message| (&message.channel, &message.chat_id));
    inbound.or_else(|| {
        entry
            .outbound
            .as_ref()
            .map(|message| (&message.channel, &message.chat_id))
    })
}

fn belongs(entry: &LedgerEntry, message: &InboundMessage) -> bool {
    chat_of(entry) == Some((&message.channel, &message.chat_id))
}

fn is_itself(entry: &LedgerEntry, message: &InboundMessage) -> bool {
    entry
        .inbound
        .as_ref()
        .is_some_and(|inbound| inbound.id == message.id)
}

fn line(entry: &LedgerEntry) -> String {
    let (whose, text) = match (&entry.inbound, &entry.outbound) {
        (Some(message), _) if SubagentTask::of(message).is_some() => {
            ("a subagent's", message.content.as_str())
        }
        (Some(message), _) => ("yours", message.content.as_str()),
        (None, Some(message)) => ("mine", message.content.as_str()),
        (None, None) => ("unreadable", ""),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut excerpt: String = text.chars().take(EXCERPT).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    let at = entry.accepted_at.format("%m-%d %H:%M");
    let why = entry
        .why
        .as_ref()
        .map(|why| format!(" — {why}"))
        .unwrap_or_default();
    format!(
        "{} · {whose}, {} · {at} · {excerpt}{why}",
        entry.id,
        state_text(entry.state)
    )
}

fn state_text(state: EntryState) -> &'static str {
    match state {
        EntryState::Uncertain => "may not have arrived",
        other => other.as_str(),
    }
}
