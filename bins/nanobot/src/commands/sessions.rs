//! `nanobot sessions`: conversations listed, shown, exported, forked, rewound. Works beside a gateway:
//! nothing here changes what was written.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use nanobot_runtime::session::{
    ReadFrom, Seq, SessionError, SessionInfo, SessionStore, SessionView, branch, fork, rewind,
};
use nanobot_runtime::types::{SessionKey, Timestamp};
use nanobot_runtime::{LoadOptions, is_subagent_session, last_miss, load, session_store};

use super::{block_on, transcript};
use crate::arguments::{ExportFormat, SessionsCommand};
use crate::failure::{Failure, chain};
use crate::output;

/// Answers a question about conversations.
///
/// # Errors
/// When there is no such conversation, or it cannot be read or written out.
pub(crate) fn sessions(options: &LoadOptions, command: SessionsCommand) -> Result<ExitCode, Failure> {
    let config = load(options)?;
    let store = session_store(&config)?;
    match command {
        SessionsCommand::List { all } => {
            let mut sessions = block_on(list(&store))?;
            sessions.retain(|info| all || !is_subagent_session(&info.key));
            output::write(&table(&sessions))?;
        }
        SessionsCommand::Show { key } => {
            let (view, miss) = block_on(async {
                let (info, view) = find(&store, &key).await?;
                Ok((view, last_miss(&config, &info.key).await))
            })?;
            output::write(&transcript::for_people(&view))?;
            if let Some(miss) = miss {
                output::line(&format!("\nLast break of the prompt cache: {}", output::harmless(&miss.to_string())))?;
            }
        }
        SessionsCommand::Export { key, format, output: file } => {
            let (info, view) = block_on(find(&store, &key))?;
            let text = match format {
                ExportFormat::Jsonl => transcript::as_json_lines(&info, &view)?,
                ExportFormat::Md => transcript::as_markdown(&info, &view),
            };
            match file {
                Some(file) => write_new(&file, &text)?,
                None => output::write(&text)?,
            }
        }
        SessionsCommand::Fork { key, at, to } => {
            let copy = block_on(fork_of(&store, &key, at.map(Seq), to))?;
            output::line(&format!(
                "Copied to {0}. Go on with it: nanobot agent -s '{0}'",
                output::harmless(copy.as_str())
            ))?;
        }
        SessionsCommand::Rewind { key, to } => {
            block_on(rewound(&store, &key, Seq(to)))?;
            output::line(&format!(
                "The conversation stands as it was after message {to}; what followed stays in its file."
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn fork_of(
    store: &Arc<dyn SessionStore>,
    name: &str,
    at: Option<Seq>,
    to: Option<String>,
) -> Result<SessionKey, Failure> {
    let from = find(store, name).await?.0.key;
    let Some(to) = to else {
        return branch(&**store, &from, at).await.map_err(|error| cut_failed(&error));
    };
    let to = named(&to);
    match fork(&**store, &from, at, &to).await {
        Ok(_) => Ok(to),
        Err(SessionError::Moved { .. }) => Err(Failure::new(
            format!("there is a conversation `{to}` already"),
            "Name another with --to, or leave --to out for the first free name.",
        )),
        Err(error) => Err(cut_failed(&error)),
    }
}

async fn rewound(store: &Arc<dyn SessionStore>, name: &str, to: Seq) -> Result<(), Failure> {
    let key = find(store, name).await?.0.key;
    rewind(&**store, &key, to).await.map(drop).map_err(|error| cut_failed(&error))
}

fn cut_failed(error: &SessionError) -> Failure {
    let remedy = match error {
        SessionError::OutOfReach { first, .. } if *first > Seq(0) => {
            "What lies before is summarised or was left by /new; `nanobot sessions fork KEY --at N` copies from there."
        }
        SessionError::OutOfReach { .. } => "`nanobot sessions show KEY` shows the number of each message.",
        SessionError::Moved { .. } => "Somebody is writing to that conversation; try again.",
        _ => "Check the permissions and the room on the disk of the workspace.",
    };
    Failure::new(chain(error), remedy)
}

/// The key of a name; one without a colon is the terminal's.
pub(super) fn named(name: &str) -> SessionKey {
    if name.contains(':') { SessionKey::from(name) } else { SessionKey::from(format!("cli:{name}")) }
}

async fn list(store: &Arc<dyn SessionStore>) -> Result<Vec<SessionInfo>, Failure> {
    store.list().await.map_err(|error| {
        Failure::new(chain(&error), "Check that you may read the workspace; `nanobot status` shows where it is.")
    })
}

/// The session of that name; a name without a colon is one of the terminal's.
pub(super) async fn find(store: &Arc<dyn SessionStore>, name: &str) -> Result<(SessionInfo, SessionView), Failure> {
    let sessions = list(store).await?;
    let exact = SessionKey::from(name);
    let info = [exact, named(name)].iter().find_map(|key| sessions.iter().find(|info| info.key == *key)).cloned();
    let Some(info) = info else {
        return Err(Failure::new(
            format!("there is no conversation `{name}` in this workspace"),
            "`nanobot sessions list` shows their names.",
        ));
    };
    let view = store
        .read(&info.key, ReadFrom::Seq(Seq(0)))
        .await
        .map_err(|error| Failure::new(chain(&error), "Check the permissions of that file."))?;
    Ok((info, view))
}

fn table(sessions: &[SessionInfo]) -> String {
    if sessions.is_empty() {
        return "No conversations yet. Begin one: nanobot agent\n".to_owned();
    }
    let width = sessions.iter().map(|info| info.key.as_str().chars().count()).max().unwrap_or_default();
    let time = |at: Option<&Timestamp>| at.map_or_else(|| " ".repeat(16), |at| at.format("%Y-%m-%d %H:%M").to_string());
    sessions
        .iter()
        .map(|info| {
            let key = output::harmless(info.key.as_str());
            format!("{key:width$}  {}  {:>6} messages\n", time(info.updated_at.as_ref()), info.messages)
        })
        .collect()
}

/// Writes a file that does not exist yet.
pub(super) fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    let written = File::create_new(file).and_then(|mut created| {
        created.write_all(text.as_bytes())?;
        created.sync_all()
    });
    written.map_err(|error| {
        Failure::new(
            format!("cannot write {}: {error}", file.display()),
            "Name a file that does not exist yet, in a directory that you may write to.",
        )
    })
}
