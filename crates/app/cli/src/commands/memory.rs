//! `nanobot memory`: searches memory, shows its versions and restores them. Works next to a running
//! gateway: memory is files, and they are locked for each change.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nanobot_config::Config;
use nanobot_runtime::memory::{
    MarkdownStore, MemoryError, MemoryHit, MemorySearch, MemoryVersions as _, Reason, Scope,
    Version, VersionText,
};
use nanobot_runtime::session::{SessionHit, SessionReach, SessionSearch};
use nanobot_runtime::{RuntimeBuilder, memory_store, search_index};

use super::{block_on, prepare_write};
use crate::failure::{CommandFailure, chain};
use crate::output::{self, sanitize};

/// Commands on memory.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Search facts, history, day notes and conversations
    Search {
        /// Words to search for; two characters are enough in Chinese and Japanese
        #[arg(required = true)]
        words: Vec<String>,
        /// Maximum number of hits in memory, and of hits in conversations
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// List changes of memory with their reasons, newest first
    Log {
        #[command(flatten)]
        whose: MemoryOwner,
    },
    /// Show the difference that a change made
    Show {
        /// Number of the change, as listed by `memory log`
        number: u64,
        #[command(flatten)]
        whose: MemoryOwner,
    },
    /// Restore a file as it was after a change; the restoration is a change of its own
    Restore {
        /// Number of the change
        number: u64,
        #[command(flatten)]
        whose: MemoryOwner,
    },
}

/// Owner of the memory, if memory is divided; by default the memory is everyone's.
#[derive(Debug, Args)]
pub(crate) struct MemoryOwner {
    /// Memory of one person, by channel and sender, such as `telegram:12345`
    #[arg(long, value_name = "ID", conflicts_with = "room")]
    person: Option<String>,
    /// Memory of one group, by its session, such as `telegram:-100123`
    #[arg(long, value_name = "KEY")]
    room: Option<String>,
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if there is no such version, or memory cannot be read or written.
pub(crate) fn memory(
    program: &RuntimeBuilder,
    command: MemoryCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    let store = memory_store(config)?;
    let text = match command {
        MemoryCommand::Search { words, limit, json } => {
            return search(config, &store, &words.join(" "), limit, json);
        }
        MemoryCommand::Log { whose } => {
            let scope = scope(whose);
            block_on(async {
                store
                    .record_changes(&scope, &Reason::Found)
                    .await
                    .map_err(|error| failed(&error))?;
                Ok(format_log(
                    &store.log(&scope).await.map_err(|error| failed(&error))?,
                ))
            })?
        }
        MemoryCommand::Show { number, whose } => {
            let scope = scope(whose);
            format_version(&block_on(async {
                store
                    .version(&scope, number)
                    .await
                    .map_err(|error| failed(&error))
            })?)
        }
        MemoryCommand::Restore { number, whose } => {
            let scope = scope(whose);
            let version = block_on(async {
                prepare_write(&runtime).await?;
                store
                    .restore(&scope, number)
                    .await
                    .map_err(|error| failed(&error))
            })?;
            format!(
                "{} is as it was in version {number}; that is version {} now.\n",
                sanitize(&version.file),
                version.number
            )
        }
    };
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn scope(whose: MemoryOwner) -> Scope {
    match (whose.person, whose.room) {
        (Some(person), _) => Scope::Person(person.into()),
        (None, Some(room)) => Scope::Room(room.into()),
        (None, None) => Scope::Shared,
    }
}

fn failed(error: &MemoryError) -> CommandFailure {
    let remedy = match error {
        MemoryError::NoVersion { .. } => "`nanobot memory log` lists the versions.",
        MemoryError::Unsupported { .. } => {
            "People and rooms have memory of their own when `memory.scopes` is true."
        }
        _ => "Check the permissions and the room on the disk of the workspace.",
    };
    CommandFailure::of(error, remedy)
}

fn format_log(log: &[Version]) -> String {
    if log.is_empty() {
        return "Nothing was changed yet.\n".to_owned();
    }
    let mut text = String::new();
    for version in log {
        let size = if version.removed {
            "removed".to_owned()
        } else {
            format!("{} bytes", version.bytes)
        };
        let at = version.at.format("%Y-%m-%d %H:%M");
        let line = format!(
            "{:>5}  {at}  {}  {size}  {}",
            version.number,
            sanitize(&version.file),
            sanitize(&reason(version))
        );
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns the reason of a version. A file's first version without another reason is what was
/// there, usually the template, and no change.
fn reason(version: &Version) -> String {
    match (&version.reason, version.before) {
        (Reason::Found, None) => "first recorded version".to_owned(),
        (reason, _) => reason.to_string(),
    }
}

fn format_version(format_hits: &VersionText) -> String {
    let version = &format_hits.version;
    let mut format_version = format!(
        "Version {} of {}, {}\n{}\n\n",
        version.number,
        sanitize(&version.file),
        version.at.format("%Y-%m-%d %H:%M:%S %:z"),
        sanitize(&reason(version))
    );
    match format_hits.difference() {
        Some(difference) => format_version.push_str(&sanitize(&difference)),
        None => format_version.push_str("The text is the same as before.\n"),
    }
    format_version
}

fn search(
    config: &Config,
    store: &MarkdownStore,
    query: &str,
    limit: usize,
    json: bool,
) -> Result<ExitCode, CommandFailure> {
    let index = search_index(config)?;
    let (memory, sessions) = block_on(async {
        let scopes = store.folders().existing();
        let broken = |error: &dyn std::error::Error| {
            CommandFailure::new(
                chain(error),
                "Delete index.db in the home; it is made again from the files.",
            )
        };
        let memory = MemorySearch::search(&index, &scopes, query, limit)
            .await
            .map_err(|error| broken(&error))?;
        let sessions = SessionSearch::search(&index, &SessionReach::All, query, limit).await;
        Ok((memory, sessions.map_err(|error| broken(&error))?))
    })?;
    let text = match json {
        true => as_json(&memory, &sessions)?,
        false => format_hits(&memory, &sessions),
    };
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn format_hits(memory: &[MemoryHit], sessions: &[SessionHit]) -> String {
    if memory.is_empty() && sessions.is_empty() {
        return "Nothing was found.\n".to_owned();
    }
    let mut text = String::new();
    for hit in memory {
        text.push_str(&format!(
            "{}:{}\n    {}\n",
            display_path(&hit.path),
            hit.line,
            sanitize(&hit.excerpt)
        ));
    }
    for hit in sessions {
        let at = hit
            .at
            .map(|at| at.format(", %Y-%m-%d %H:%M").to_string())
            .unwrap_or_default();
        let session = sanitize(hit.session.as_str());
        text.push_str(&format!(
            "{session} message {}, {}{at}\n    {}\n",
            hit.seq.next(),
            sanitize(&hit.role),
            sanitize(&hit.excerpt)
        ));
    }
    text
}

fn as_json(memory: &[MemoryHit], sessions: &[SessionHit]) -> Result<String, CommandFailure> {
    let memory: Vec<serde_json::Value> = memory
        .iter()
        .map(|hit| serde_json::json!({"file": display_path(&hit.path), "line": hit.line, "excerpt": hit.excerpt}))
        .collect();
    let sessions: Vec<serde_json::Value> = sessions
        .iter()
        .map(|hit| {
            serde_json::json!({
                "session": hit.session, "message": hit.seq.next(), "role": hit.role, "at": hit.at,
                "file": display_path(&hit.path), "line": hit.line, "excerpt": hit.excerpt,
            })
        })
        .collect();
    let text = crate::commands::json(&serde_json::json!({"memory": memory, "sessions": sessions}));
    Ok(text.map_err(std::io::Error::from)? + "\n")
}

fn display_path(path: &Path) -> String {
    sanitize(&path.display().to_string())
}
