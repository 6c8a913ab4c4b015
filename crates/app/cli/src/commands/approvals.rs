//! `nanobot approvals`: lists the questions about calls that are open and the permissions that were
//! given with "always", and revokes permissions. Works next to a running gateway, which reads the
//! same file for every question.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_runtime::{Grant, GrantId, OpenQuestion, RuntimeBuilder, RuntimeError, approval_store};
use serde_json::json;

use super::{block_on, prepare_write};
use crate::failure::CommandFailure;
use crate::output::{self, sanitize};

/// Subcommands of `nanobot approvals`.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List open questions and standing permissions
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Revoke a standing permission, or all of them
    Revoke {
        /// Id of the permission, as listed
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Revoke all permissions
        #[arg(long)]
        all: bool,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if there is no such permission, or the file cannot be used.
pub(crate) fn approvals(
    program: &RuntimeBuilder,
    command: ApprovalsCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let store = approval_store(runtime.config());
    match command {
        ApprovalsCommand::List { json } => {
            let grants = store.grants().map_err(RuntimeError::from)?;
            let questions = store.questions().map_err(RuntimeError::from)?;
            if json {
                let all = json!({ "permissions": grants, "questions": questions });
                let text = crate::commands::json(&all).map_err(std::io::Error::from)?;
                output::write_verbatim(&(text + "\n"))?;
            } else {
                output::write(&format_list(&grants, &questions))?;
            }
        }
        ApprovalsCommand::Revoke { id, .. } => {
            block_on(prepare_write(&runtime))?;
            let id = id.map(GrantId);
            let revoked = store.revoke(id.as_ref()).map_err(RuntimeError::from)?;
            if let Some(GrantId(id)) = id.filter(|_| revoked.is_empty()) {
                return Err(CommandFailure::new(
                    format!("there is no permission {}", sanitize(&id)),
                    "`nanobot approvals list` shows the ids.",
                ));
            }
            output::write(&format!("Revoked: {}\n", revoked.len()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn format_list(grants: &[Grant], questions: &[OpenQuestion]) -> String {
    if grants.is_empty() && questions.is_empty() {
        return "No question is open, and nothing is permitted always.\n".to_owned();
    }
    let mut text = String::new();
    for question in questions {
        let address = &question.address;
        text.push_str(&format!(
            "{}  open: {} in {}:{}, until {}\n",
            question.code,
            sanitize(question.tool.as_str()),
            sanitize(address.channel.as_str()),
            sanitize(address.chat_id.as_str()),
            question
                .expires_at
                .with_timezone(&chrono::Local)
                .format("%H:%M"),
        ));
    }
    for grant in grants {
        text.push_str(&format!(
            "{}  always: {} {} in {}:{}, by {}, {}\n",
            grant.id.0,
            sanitize(grant.tool.as_str()),
            sanitize(&grant.rule),
            sanitize(grant.channel.as_str()),
            sanitize(grant.chat.as_str()),
            sanitize(grant.by.as_str()),
            grant.at.with_timezone(&chrono::Local).format("%Y-%m-%d"),
        ));
    }
    text
}
