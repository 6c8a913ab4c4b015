//! A temporary home with a configuration, created for one row.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nanobot_session::{Durability, Entry, JsonlStore, Seq, SessionPaths, SessionStore as _};
use nanobot_types::{ChatMessage, SessionKey};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// Number of messages per append. Messages that were appended together are read together, so this
/// is a question and its answer, as in a turn.
const BATCH: usize = 2;

/// A home of nanobot in a temporary folder.
#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    /// Creates a home whose model is the server at `base`; `rest` is merged into the configuration.
    pub(crate) fn new(base: &str, rest: impl IntoIterator<Item = Value>) -> Result<Self> {
        // The path is about as long as a user's, because each request contains it seven times.
        let folder = tempfile::Builder::new().prefix("nanobot-").tempdir()?;
        let mut config = json!({
            "agents": { "defaults": { "provider": "custom", "model": "scripted-model" } },
            "providers": { "custom": { "apiKey": "sk-measure", "apiBase": base } },
        });
        for part in rest {
            merge(&mut config, part);
        }
        std::fs::write(
            folder.path().join("config.json"),
            serde_json::to_vec_pretty(&config)?,
        )?;
        Ok(Self { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }

    /// Restricts a program's environment to this home and `PATH`.
    pub(crate) fn isolate<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path())
            .env("NANOBOT_HOME", self.path())
    }

    /// Writes a session of `messages` messages, of which the last ten are still sent to the model.
    pub(crate) async fn store_session(&self, key: &str, messages: usize) -> Result<()> {
        self.store_session_sending(key, messages, 10).await
    }

    /// Like `store_session`, with `sent` messages still sent to the model.
    pub(crate) async fn store_session_sending(
        &self,
        key: &str,
        messages: usize,
        sent: u64,
    ) -> Result<()> {
        let paths = SessionPaths::discover(&self.workspace(), self.path(), self.path());
        let store = JsonlStore::new(paths).with_durability(Durability::Os);
        let key = SessionKey::from(key);
        let mut head = Seq(0);
        for first in (0..messages).step_by(BATCH) {
            let batch = (first..messages.min(first + BATCH))
                .map(|number| Entry::message(message(number)))
                .collect();
            head = store.append(&key, head, batch).await?;
        }
        let upto = Seq(head.0.saturating_sub(sent));
        store
            .append(&key, head, vec![Entry::Consolidated { upto }])
            .await?;
        Ok(())
    }
}

/// Returns alternating messages of the user and the assistant, each about a hundred characters
/// long.
fn message(number: usize) -> ChatMessage {
    let text = format!("message {number}: {}", "word ".repeat(16));
    match number % 2 {
        0 => ChatMessage::user(text),
        _ => ChatMessage::assistant(text),
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
