//! Helpers of the tests: a store in a folder of its own, and short constructors of entries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_session::{
    Entry, JsonlStore, MessageEntry, ReadFrom, Replay, Seq, SessionPaths, SessionStore as _,
    SessionView, TurnEnd, TurnOutcome,
};
use nanobot_types::{AssistantMessage, ChatMessage, SessionKey, ToolCall, Transcript};

/// A folder of sessions that is removed when dropped.
pub(crate) struct Home {
    root: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a folder with one session file, as another program or a crash left it.
    pub(crate) fn with_file(bytes: &[u8]) -> Self {
        let home = Self::new();
        std::fs::write(home.file(), bytes).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the file of [`key`].
    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("telegram_1.jsonl")
    }

    pub(crate) fn store(&self) -> JsonlStore {
        JsonlStore::new(SessionPaths::only(self.path()))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.file()).unwrap()
    }

    /// Returns the files whose name contains `mark`, sorted by name.
    pub(crate) fn files_with_mark(&self, mark: &str) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.retain(|file| file.to_str().unwrap().contains(mark));
        files.sort();
        files
    }
}

pub(crate) fn key() -> SessionKey {
    "telegram:1".into()
}

pub(crate) async fn whole(store: &JsonlStore) -> SessionView {
    store.read(&key(), ReadFrom::Seq(Seq(0))).await.unwrap()
}

pub(crate) fn texts(view: &SessionView) -> Vec<String> {
    messages(view)
        .iter()
        .map(|entry| entry.message.text())
        .collect()
}

pub(crate) fn messages(view: &SessionView) -> Vec<MessageEntry> {
    let entries = view
        .records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::Message(entry) => Some(entry.clone()),
            _ => None,
        });
    entries.collect()
}

pub(crate) fn user(text: &str) -> Entry {
    Entry::message(ChatMessage::user(text))
}

pub(crate) fn user_of(id: &str, text: &str) -> Entry {
    Entry::Message(MessageEntry {
        inbound: Some(id.into()),
        ..MessageEntry::new(ChatMessage::user(text))
    })
}

pub(crate) fn assistant(text: &str) -> Entry {
    Entry::message(ChatMessage::assistant(text))
}

pub(crate) fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "exec", "{}")
}

pub(crate) fn calls(ids: &[&str]) -> Entry {
    Entry::message(ChatMessage::Assistant(AssistantMessage {
        tool_calls: ids.iter().map(|id| call(id)).collect(),
        ..AssistantMessage::default()
    }))
}

pub(crate) fn result(id: &str, text: &str) -> Entry {
    Entry::message(ChatMessage::tool(&call(id), text))
}

pub(crate) fn end(inbound: &[&str]) -> Entry {
    Entry::TurnEnded(TurnEnd {
        turn: "turn".into(),
        inbound: inbound.iter().map(|id| (*id).into()).collect(),
        outcome: TurnOutcome::Replied,
        visible: Some("done".to_owned()),
    })
}

pub(crate) fn roles(transcript: &Transcript) -> Vec<&'static str> {
    transcript
        .messages()
        .iter()
        .map(|message| message.role())
        .collect()
}

/// Asserts that every call is directly followed by exactly one result, and that there are no other
/// results.
pub(crate) fn assert_valid(replay: &Replay, what: &str) {
    let mut open: Vec<ToolCall> = Vec::new();
    for message in replay.transcript.messages() {
        match &**message {
            ChatMessage::Tool(result) => {
                assert!(!open.is_empty(), "{what}: a result without a call");
                assert_eq!(
                    open.remove(0).id,
                    result.tool_call_id,
                    "{what}: a result of another call"
                );
            }
            ChatMessage::Assistant(assistant) => {
                assert_eq!(open, [], "{what}: calls without results");
                open = assistant.tool_calls.clone();
            }
            ChatMessage::System { .. } | ChatMessage::User(_) => {
                assert_eq!(open, [], "{what}: calls without results");
            }
        }
    }
    assert_eq!(open, [], "{what}: calls without results at the end");
}

/// Returns everything that was logged, as lines of text.
pub(crate) fn log() -> &'static Log {
    static LOG: std::sync::OnceLock<Log> = std::sync::OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    })
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl Log {
    /// Returns the number of lines that contain a path and a phrase.
    pub(crate) fn count(&self, path: &Path, phrase: &str) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .filter(|line| line.contains(path.to_str().unwrap()) && line.contains(phrase))
            .count()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
