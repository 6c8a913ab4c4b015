//! `nanobot pairing`: lists pending and approved people, approves and revokes. Works next to a
//! running gateway, which reads the same file for every unknown sender.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Subcommand;
use nanobot_runtime::{HomeAccess, Pairings, Person, Revoked, RuntimeBuilder, RuntimeError};

use super::{block_on, prepare_write};
use crate::failure::CommandFailure;
use crate::output::{self, sanitize};

/// Subcommands of `nanobot pairing`.
#[derive(Debug, Subcommand)]
pub(crate) enum PairingCommand {
    /// List people with an open code, and approved people
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Approve the person who received this code
    Approve {
        /// Code, in upper or lower case, with or without its dash
        code: String,
    },
    /// Withdraw a code without an approval
    Deny {
        /// The code
        code: String,
    },
    /// Revoke an approval
    Revoke {
        /// Channel, by its name in the configuration
        channel: String,
        /// Person, as listed by `pairing list`; of `7|ann` either half is enough
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the code is unknown, or the file cannot be used.
pub(crate) fn pairing(
    program: &RuntimeBuilder,
    command: PairingCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    if !matches!(command, PairingCommand::List { .. }) {
        block_on(prepare_write(&runtime))?;
    }
    let access = HomeAccess::of(&runtime);
    let (store, now) = (access.pairing(), Utc::now());
    let text = match command {
        PairingCommand::List { json } => {
            let pairings = store.list(now).map_err(RuntimeError::from)?;
            if json {
                as_json(&pairings)?
            } else {
                format_list(&pairings, now)
            }
        }
        PairingCommand::Approve { code } => {
            let person = access.approve(&code, None, None)?;
            approval_message(&access, &person)?
        }
        PairingCommand::Deny { code } => {
            let person = access.deny(&code, None, None)?;
            format!("{} is not let in.\n", display_name(&person))
        }
        PairingCommand::Revoke { channel, id } => {
            let person = Person {
                channel: channel.into(),
                sender: id.into(),
            };
            revoke(&access, &person)?
        }
    };
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn approval_message(access: &HomeAccess, person: &Person) -> Result<String, CommandFailure> {
    let name = display_name(person);
    Ok(match access.is_admitted(person, true)? {
        Some(true) => format!("{name} is let in from now on.\n"),
        Some(false) => format!(
            "{name} is approved, but channels.{} still keeps them out: see its allowFrom and dm.\n",
            sanitize(person.channel.as_str())
        ),
        None => format!("{name} is approved; there is no such channel in the configuration.\n"),
    })
}

fn revoke(access: &HomeAccess, person: &Person) -> Result<String, CommandFailure> {
    let name = display_name(person);
    match access.revoke(person, None)? {
        Revoked::Done => Ok(format!("{name} is not let in any more.\n")),
        Revoked::StillLetIn => {
            let channel = sanitize(person.channel.as_str());
            Ok(format!(
                "{name} is let in by channels.{channel} itself: change its allowFrom or dm.\n"
            ))
        }
        Revoked::WasNotApproved => Err(CommandFailure::new(
            format!("{name} was not approved"),
            "`nanobot pairing list` shows who was.",
        )),
    }
}

fn display_name(person: &Person) -> String {
    format!(
        "{} on {}",
        sanitize(person.sender.as_str()),
        sanitize(person.channel.as_str())
    )
}

fn as_json(pairings: &Pairings) -> Result<String, CommandFailure> {
    Ok(crate::commands::json(&pairings).map_err(std::io::Error::from)? + "\n")
}

fn format_list(pairings: &Pairings, now: DateTime<Utc>) -> String {
    if pairings.pending.is_empty() && pairings.approved.is_empty() {
        return "No one has an open code, and no one is approved.\n".to_owned();
    }
    let mut text = String::new();
    for pending in &pairings.pending {
        let minutes = (pending.expires_at - now)
            .num_seconds()
            .max(0)
            .div_euclid(60)
            + 1;
        text.push_str(&format!(
            "{}  waits: {} (at most {minutes} min more)\n",
            pending.code,
            display_name(&pending.person)
        ));
    }
    for person in &pairings.approved {
        text.push_str(&format!("approved   {}\n", display_name(person)));
    }
    text
}
