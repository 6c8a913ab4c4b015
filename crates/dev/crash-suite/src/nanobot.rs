//! `nanobot gateway` as the program under test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use async_trait::async_trait;
use nanobot_session::{
    Entry, JsonlStore, ReadFrom, Seq, SessionPaths, SessionStore as _, SessionView, replay,
};
use nanobot_testkit::ScriptedCall;
use nanobot_types::ChatMessage;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use crate::SuiteError;
use crate::disk::{copy_file, copy_folder};
use crate::system::{
    Checkpoint, Endpoints, LedgerState, SessionLog, StateRow, System, SystemStep, ToolAction,
};

const EFFECTS: &str = "effects.log";
const LOOKED_AT: &str = "looked-at.txt";
const DATABASE: [&str; 2] = ["state.db", "state.db-wal"];
/// Texts in the results of interrupted calls: in a turn that was continued, and in one that was
/// not.
const UNKNOWN: [&str; 2] = [
    "outcome unknown after restart",
    "interrupted before a result was recorded",
];

/// The gateway of this workspace.
#[derive(Clone, Debug)]
pub struct Nanobot {
    binary: PathBuf,
}

impl Nanobot {
    /// Creates a system that runs the gateway of this executable.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
        }
    }

    /// Returns the `nanobot` executable that Cargo builds next to this one, if it was built.
    #[must_use]
    pub fn beside_this_program() -> Option<PathBuf> {
        let this = std::env::current_exe().ok()?;
        let name = format!("nanobot{}", std::env::consts::EXE_SUFFIX);
        this.ancestors()
            .skip(1)
            .take(2)
            .map(|folder| folder.join(&name))
            .find(|path| path.is_file())
    }
}

fn workspace(home: &Path) -> PathBuf {
    home.join("workspace")
}

#[async_trait]
impl System for Nanobot {
    fn prepare(&self, home: &Path, endpoints: &Endpoints) -> Result<(), SuiteError> {
        let workspace = workspace(home);
        fs::create_dir_all(&workspace).map_err(SuiteError::file("create", &workspace))?;
        let looked_at = workspace.join(LOOKED_AT);
        fs::write(&looked_at, "It stays as it is.\n")
            .map_err(SuiteError::file("write", &looked_at))?;
        let config = json!({
            "agents": {"defaults": {"model": "custom/scripted", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "key", "apiBase": endpoints.model}},
            // No person answers questions, and turns fetch pages before they run commands.
            // `tests/questions.rs` kills a gateway that asks.
            "tools": {"ssrfWhitelist": ["127.0.0.0/8"], "approvals": {"afterUntrusted": "allow"}},
            "gateway": {"port": 0},
            "channels": {
                "sendProgress": false,
                "sendToolHints": false,
                "telegram": {
                    "enabled": true, "token": endpoints.token, "apiBase": endpoints.telegram,
                    "allowFrom": ["*"], "streaming": false, "pollTimeout": 1,
                },
            },
        });
        let path = home.join("config.json");
        fs::write(&path, config.to_string()).map_err(SuiteError::file("write", path))
    }

    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("gateway")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("NANOBOT_HOME", home)
            .current_dir(home);
        command
    }

    fn is_ready(&self, line: &str) -> bool {
        line.starts_with("Health: ")
    }

    fn names_owner(&self, stderr: &str, owner: u32) -> bool {
        let owner = owner.to_string();
        stderr
            .split(|c: char| !c.is_ascii_digit())
            .any(|number| number == owner)
    }

    fn call(&self, deed: ToolAction<'_>, token: &str) -> ScriptedCall {
        match deed {
            ToolAction::Look => ScriptedCall::new("read_file", &json!({"path": LOOKED_AT})),
            ToolAction::Fetch { page } => ScriptedCall::new("web_fetch", &json!({"url": page})),
            ToolAction::Put => ScriptedCall::new(
                "write_file",
                &json!({"path": format!("put/{token}.txt"), "content": token}),
            ),
            ToolAction::Append => ScriptedCall::new(
                "exec",
                &json!({"command": format!("echo {token} >> {EFFECTS}")}),
            ),
            ToolAction::Tell { chat, text } => ScriptedCall::new(
                "message",
                &json!({"content": text, "chat_id": chat.to_string()}),
            ),
        }
    }

    fn is_unknown_outcome(&self, result: &str) -> bool {
        UNKNOWN.iter().any(|mark| result.contains(mark))
    }

    fn is_success(&self, result: &str) -> bool {
        result.trim_end().ends_with("Exit code: 0")
    }

    fn effects(&self, home: &Path) -> Vec<String> {
        let text = fs::read_to_string(workspace(home).join(EFFECTS)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn save(&self, home: &Path, into: &Path) -> Result<(), SuiteError> {
        fs::create_dir_all(into).map_err(SuiteError::file("create", into))?;
        let sessions = workspace(home).join("sessions");
        if sessions.is_dir() {
            copy_folder(&sessions, &into.join("sessions"))
                .map_err(SuiteError::file("copy", &sessions))?;
        }
        for name in DATABASE {
            let path = home.join(name);
            copy_file(&path, &into.join(name)).map_err(SuiteError::file("copy", path))?;
        }
        Ok(())
    }

    async fn load(&self, saved: &Path) -> Checkpoint {
        let mut checkpoint = Checkpoint {
            sessions: sessions(&saved.join("sessions")).await,
            ..Checkpoint::default()
        };
        let database = saved.join("state.db");
        if database.is_file() {
            match audit(&database) {
                Ok(rows) => checkpoint.ledger = rows,
                Err(problem) => checkpoint.problem = Some(format!("state.db: {problem}")),
            }
        }
        checkpoint
    }

    fn ledger(&self, home: &Path) -> Vec<StateRow> {
        // While the gateway starts or ends, the file may be locked or missing.
        let connection =
            Connection::open_with_flags(home.join("state.db"), OpenFlags::SQLITE_OPEN_READ_ONLY);
        connection
            .and_then(|connection| rows(&connection))
            .unwrap_or_default()
    }
}

/// Reads every session file of a folder with the program's own store.
async fn sessions(folder: &Path) -> BTreeMap<String, SessionLog> {
    let mut logs = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".jsonl")
            && let Ok(bytes) = fs::read(entry.path())
        {
            logs.insert(
                name,
                SessionLog {
                    bytes,
                    ..SessionLog::default()
                },
            );
        }
    }
    let store = JsonlStore::new(SessionPaths::only(folder));
    for (name, log) in &mut logs {
        // The only channel here is Telegram, and its chats are numbers.
        let key = name.trim_end_matches(".jsonl").replacen('_', ":", 1);
        match store.read(&key.into(), ReadFrom::Seq(Seq(0))).await {
            Ok(view) => {
                log.steps = steps(&view);
                let torn = torn_lines(folder, name);
                log.problem = broken_lines(&log.bytes, &torn).or_else(|| unpaired(&view));
            }
            Err(error) => log.problem = Some(error.to_string()),
        }
    }
    logs
}

/// Returns the lines of a session file that the program found truncated by a kill: it copies each
/// to a file of its own before it terminates the line.
fn torn_lines(folder: &Path, name: &str) -> Vec<Vec<u8>> {
    let prefix = format!("{name}.torn-");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .filter_map(|entry| fs::read(entry.path()).ok())
        .collect()
}

/// Checks that every line is valid JSON, except for a last one without an end and for `torn` lines,
/// which were truncated by a kill and terminated afterwards.
fn broken_lines(bytes: &[u8], torn: &[Vec<u8>]) -> Option<String> {
    let terminated = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let broken = bytes
        .get(..terminated)?
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .filter(|line| serde_json::from_slice::<serde_json::Value>(line).is_err())
        .filter(|line| !torn.iter().any(|copy| copy == line))
        .count();
    (broken > 0).then(|| format!("{broken} lines cannot be read"))
}

/// Reports a call without a result, or a result without a call, in the conversation as it is sent.
fn unpaired(view: &SessionView) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    let replayed = replay(view);
    for message in replayed.transcript.messages() {
        match &**message {
            ChatMessage::Assistant(assistant) if open.is_empty() => {
                open.extend(assistant.tool_calls.iter().map(|call| call.id.to_string()));
            }
            ChatMessage::Tool(result) => {
                let Some(place) = open
                    .iter()
                    .position(|id| id == result.tool_call_id.as_str())
                else {
                    return Some(format!("the result of {} has no call", result.tool_call_id));
                };
                open.remove(place);
            }
            _ if !open.is_empty() => return Some(format!("the calls {open:?} have no result")),
            _ => {}
        }
    }
    (!open.is_empty()).then(|| format!("the calls {open:?} have no result"))
}

fn steps(view: &SessionView) -> Vec<SystemStep> {
    let step = |entry: &Entry| match entry {
        Entry::Message(message) => match &*message.message {
            ChatMessage::User(_) => Some(SystemStep::Said(message.message.text())),
            ChatMessage::Assistant(assistant) if assistant.tool_calls.is_empty() => {
                Some(SystemStep::Answered(message.message.text()))
            }
            ChatMessage::Assistant(assistant) => Some(SystemStep::Called(
                assistant
                    .tool_calls
                    .iter()
                    .map(|call| call.id.to_string())
                    .collect(),
            )),
            ChatMessage::Tool(result) => Some(SystemStep::Returned {
                call: result.tool_call_id.to_string(),
                text: message.message.text(),
            }),
            ChatMessage::System { .. } => None,
        },
        Entry::TurnEnded(end) => Some(SystemStep::Ended(
            end.inbound.iter().map(ToString::to_string).collect(),
        )),
        // Cursors and metadata are not steps of a turn.
        _ => None,
    };
    view.records
        .iter()
        .filter_map(|record| step(&record.entry))
        .collect()
}

/// Opens a copy of the database as a program does after a crash, and checks its integrity.
fn audit(path: &Path) -> Result<Vec<StateRow>, String> {
    let check_and_read = || -> rusqlite::Result<(String, Vec<StateRow>)> {
        let connection = Connection::open(path)?;
        let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        Ok((verdict, rows(&connection)?))
    };
    match check_and_read() {
        Ok((verdict, rows)) if verdict == "ok" => Ok(rows),
        Ok((verdict, _)) => Err(verdict),
        Err(error) => Err(error.to_string()),
    }
}

fn rows(connection: &Connection) -> rusqlite::Result<Vec<StateRow>> {
    // If the first process was killed early, the file has no tables.
    let tables: u32 = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'",
        [],
        |row| row.get(0),
    )?;
    if tables == 0 {
        return Ok(Vec::new());
    }
    let mut statement =
        connection.prepare("SELECT queue, name, state, body FROM ledger ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        let (queue, name, state, body): (String, String, String, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let text = serde_json::from_str::<serde_json::Value>(&body).unwrap_or_default();
        let text = text
            .get("content")
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
            .to_owned();
        Ok(StateRow {
            inbound: queue == "inbound",
            name,
            text,
            standing: standing(&state),
        })
    })?;
    rows.collect()
}

fn standing(state: &str) -> LedgerState {
    match state {
        "pending" => LedgerState::Open,
        "sending" => LedgerState::Sending,
        "answered" | "sent" => LedgerState::Done,
        "uncertain" => LedgerState::Uncertain,
        _ => LedgerState::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_torn_by_a_kill_may_be_broken() {
        let torn = [b"{\"role\":\"us".to_vec()];
        for (log, copies, expected) in [
            ("{}\n{}\n", &torn[..0], None),
            ("{}\n{\"role\":\"us", &torn[..0], None),
            ("{}\n{\"role\":\"us\n{}\n", &torn, None),
            (
                "{}\n{\"role\":\"us\n{}\n",
                &torn[..0],
                Some("1 lines cannot be read"),
            ),
            ("{}\n{\"role\"\n{}\n", &torn, Some("1 lines cannot be read")),
        ] {
            let found = broken_lines(log.as_bytes(), copies);
            assert_eq!(found.as_deref(), expected, "{log:?}");
        }
    }
}
