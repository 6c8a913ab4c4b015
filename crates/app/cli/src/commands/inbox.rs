//! `nanobot inbox`: lists messages that are unsettled, uncertain or failed, and retries or drops
//! them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use nanobot_runtime::bus::{LedgerEntry, LedgerFilter};
use nanobot_runtime::{Inbox, RuntimeBuilder, RuntimeError};

use super::block_on;
use crate::failure::CommandFailure;
use crate::output::{self, sanitize};
use crate::serve;

/// Options of `inbox`. Without any of the first three, all of them are listed.
#[derive(Debug, Args)]
pub(crate) struct InboxArguments {
    /// Messages that are not settled yet
    #[arg(long, global = true)]
    pending: bool,
    /// Messages that may or may not have arrived
    #[arg(long, global = true)]
    uncertain: bool,
    /// Messages that were given up
    #[arg(long, global = true)]
    failed: bool,
    /// All messages that are kept
    #[arg(long, global = true)]
    all: bool,
    /// Maximum number of entries
    #[arg(long, global = true, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<InboxCommand>,
}

/// Subcommands of `nanobot inbox`.
#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// List messages, newest first (the default)
    List,
    /// Print a message
    Show {
        /// Number of the message, as listed by `inbox`
        id: String,
    },
    /// Retry a message
    Retry {
        /// Number of the message
        id: String,
    },
    /// Drop a message
    Drop {
        /// Number of the message
        id: String,
    },
}

/// Length of a message in a list, in characters.
const EXCERPT_LENGTH: usize = 60;

/// Lists, shows, retries or drops messages.
///
/// # Errors
/// Returns an error if the ledger cannot be used, or the entry's state does not allow the
/// operation.
pub(crate) fn inbox(
    program: &RuntimeBuilder,
    arguments: &InboxArguments,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    serve::warn_of_findings(config);
    let text = block_on(async {
        let inbox = Inbox::open(config).await?;
        let done = execute(&inbox, arguments).await;
        inbox.close().await;
        done
    })?;
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn execute(inbox: &Inbox, arguments: &InboxArguments) -> Result<String, CommandFailure> {
    let ledger = inbox.ledger();
    let failed = |error| CommandFailure::from(RuntimeError::from(error));
    match arguments.command.as_ref().unwrap_or(&InboxCommand::List) {
        InboxCommand::List => {
            let entries = inbox.entries(&filters(arguments), arguments.limit).await?;
            if arguments.json {
                as_json(crate::commands::json(&entries))
            } else {
                Ok(format_list(&entries))
            }
        }
        InboxCommand::Show { id } => {
            let entry = ledger.show(id).await.map_err(failed)?;
            if arguments.json {
                as_json(crate::commands::json(&entry))
            } else {
                Ok(format_entry(&entry))
            }
        }
        InboxCommand::Retry { id } => {
            ledger.retry(id).await.map_err(failed)?;
            Ok(format!(
                "Entry {id} is pending again; a gateway tries it when it runs.\n"
            ))
        }
        InboxCommand::Drop { id } => {
            ledger.discard(id).await.map_err(failed)?;
            Ok(format!("Entry {id} is given up.\n"))
        }
    }
}

/// Returns the requested filters; by default pending, uncertain and failed messages.
fn filters(arguments: &InboxArguments) -> Vec<LedgerFilter> {
    if arguments.all {
        return vec![LedgerFilter::All];
    }
    let every = [
        (arguments.pending, LedgerFilter::Open),
        (arguments.uncertain, LedgerFilter::Uncertain),
        (arguments.failed, LedgerFilter::Failed),
    ];
    let says_nothing = every.iter().all(|(wanted, _)| !wanted);
    every
        .into_iter()
        .filter(|(wanted, _)| *wanted || says_nothing)
        .map(|(_, filter)| filter)
        .collect()
}

fn as_json(written: serde_json::Result<String>) -> Result<String, CommandFailure> {
    Ok(written.map_err(std::io::Error::from)? + "\n")
}

fn format_list(entries: &[LedgerEntry]) -> String {
    if entries.is_empty() {
        return "Nothing.\n".to_owned();
    }
    entries.iter().map(|entry| line(entry) + "\n").collect()
}

fn line(entry: &LedgerEntry) -> String {
    let text = content(entry)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut excerpt: String = sanitize(&text).chars().take(EXCERPT_LENGTH).collect();
    if excerpt.chars().count() == EXCERPT_LENGTH {
        excerpt.push('…');
    }
    let at = entry.accepted_at.format("%Y-%m-%d %H:%M");
    let why = entry
        .why
        .as_ref()
        .map(|why| format!(" — {}", sanitize(why)))
        .unwrap_or_default();
    format!(
        "{}  {}  {}  {at}  {excerpt}{why}",
        entry.id,
        entry.state,
        sanitize(&format_address(entry))
    )
}

fn format_entry(entry: &LedgerEntry) -> String {
    let mut text = format!(
        "Entry {}: {}\n{}\nAccepted: {}\nHanded out: {} time(s)\n",
        entry.id,
        entry.state,
        sanitize(&format_address(entry)),
        entry.accepted_at.format("%Y-%m-%d %H:%M:%S %:z"),
        entry.attempts
    );
    if let Some(why) = &entry.why {
        text.push_str(&format!("Why: {}\n", sanitize(why)));
    }
    text + "\n" + sanitize(content(entry)).trim_end() + "\n"
}

fn content(entry: &LedgerEntry) -> &str {
    let inbound = entry
        .inbound
        .as_ref()
        .map(|message| message.content.as_str());
    inbound
        .or_else(|| {
            entry
                .outbound
                .as_ref()
                .map(|message| message.content.as_str())
        })
        .unwrap_or("(unreadable)")
}

fn format_address(entry: &LedgerEntry) -> String {
    match (&entry.inbound, &entry.outbound) {
        (Some(message), _) => format!(
            "from {}:{} ({})",
            message.channel, message.chat_id, message.sender_id
        ),
        (None, Some(message)) => format!("to {}:{}", message.channel, message.chat_id),
        (None, None) => "(unreadable)".to_owned(),
    }
}
