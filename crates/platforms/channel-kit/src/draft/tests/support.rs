//! Chats and disks of the tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nanobot_channel::{
    ChannelError, Measure, NoteError, Notes, Quarantined, TaskTracker, Value, async_trait,
};
use serde_json::json;

use crate::draft::{DraftBoard, DraftPlace, DraftPreview};

/// A disk that may be full.
#[derive(Debug, Default)]
pub(crate) struct Paper {
    pub(super) text: Mutex<Option<String>>,
    pub(crate) is_full: AtomicBool,
}

impl Paper {
    fn set(&self, text: Option<&str>) -> Result<(), NoteError> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
        }
        *self.text.lock().unwrap() = text.map(str::to_owned);
        Ok(())
    }

    pub(crate) fn drafts(&self) -> Value {
        self.noted("drafts")
    }

    pub(crate) fn begun(&self) -> Value {
        self.noted("begun")
    }

    pub(crate) fn taken(&self) -> Value {
        self.noted("taken")
    }

    /// `Null` for an empty list, and without a note.
    fn noted(&self, list: &str) -> Value {
        let text = self.text.lock().unwrap().clone();
        let note: Value = text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
        let is_empty = note[list] == json!([]);
        if is_empty {
            Value::Null
        } else {
            note[list].clone()
        }
    }
}

#[async_trait]
impl Notes for Paper {
    async fn read(&self, _name: &'static str) -> Result<Option<String>, NoteError> {
        Ok(self.text.lock().unwrap().clone())
    }

    async fn write(&self, _name: &'static str, text: &str) -> Result<(), NoteError> {
        self.set(Some(text))
    }

    async fn remove(&self, _name: &'static str) -> Result<(), NoteError> {
        self.set(None)
    }

    async fn write_unsynced(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.write(name, text).await
    }

    async fn quarantine(&self, _key: &str, _bytes: &[u8]) -> Result<(), NoteError> {
        Err(NoteError::TooLong)
    }

    async fn quarantined(&self) -> Result<Quarantined, NoteError> {
        Ok(Quarantined::default())
    }
}

/// Records its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Chat(pub(super) Arc<Mutex<Vec<String>>>);

impl Chat {
    pub(super) fn record(&self, call: &str, text: &str) {
        self.0.lock().unwrap().push(format!("{call} {text}"));
    }
}

impl DraftPlace for Chat {
    type Message = u8;

    fn visible(&self, text: &str) -> String {
        text.chars().take(4).collect()
    }

    async fn begin(&self, text: &str, _key: &str) -> Result<Option<u8>, ChannelError> {
        self.record("begin", text);
        Ok(Some(7))
    }

    async fn edit(&self, message: &u8, text: &str) -> Result<(), ChannelError> {
        self.record(&format!("edit {message}"), text);
        Ok(())
    }

    async fn remove(&self, message: &u8) -> Result<(), ChannelError> {
        self.record("remove", &message.to_string());
        Ok(())
    }

    async fn leave(&self, message: &u8) -> Result<(), ChannelError> {
        self.record("leave", &message.to_string());
        Err(ChannelError::Unavailable("no".to_owned()))
    }

    fn locator(&self, message: &u8) -> Option<Value> {
        Some(Value::from(*message))
    }
}

/// A chat that shows previews. Its script holds the outcomes of the next ones.
#[derive(Clone, Debug, Default)]
pub(super) struct PreviewChat {
    chat: Chat,
    script: Arc<Mutex<VecDeque<ChannelError>>>,
}

impl PreviewChat {
    pub(super) fn failing(script: impl IntoIterator<Item = ChannelError>) -> Self {
        let chat = Self::default();
        chat.script.lock().unwrap().extend(script);
        chat
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.chat.0.lock().unwrap().clone()
    }
}

impl DraftPlace for PreviewChat {
    type Message = u8;

    fn visible(&self, text: &str) -> String {
        self.chat.visible(text)
    }

    async fn begin(&self, text: &str, key: &str) -> Result<Option<u8>, ChannelError> {
        self.chat.begin(text, key).await
    }

    async fn edit(&self, message: &u8, text: &str) -> Result<(), ChannelError> {
        self.chat.edit(message, text).await
    }

    async fn remove(&self, message: &u8) -> Result<(), ChannelError> {
        self.chat.remove(message).await
    }

    fn locator(&self, message: &u8) -> Option<Value> {
        self.chat.locator(message)
    }

    fn preview(&self) -> Option<&dyn DraftPreview> {
        Some(self)
    }
}

#[async_trait]
impl DraftPreview for PreviewChat {
    async fn show(&self, text: &str) -> Result<(), ChannelError> {
        self.chat.record("preview", text);
        self.script.lock().unwrap().pop_front().map_or(Ok(()), Err)
    }

    fn refresh_interval(&self) -> Duration {
        Duration::from_secs(20)
    }
}

/// A board that records its drafts.
pub(super) async fn recording_board(paper: &Arc<Paper>) -> (DraftBoard<u8>, TaskTracker) {
    let (board, tasks) = (DraftBoard::new(Measure::CodePoints, 4), TaskTracker::new());
    board
        .record
        .open(Arc::<Paper>::clone(paper), tasks.clone(), "bot")
        .await;
    (board, tasks)
}
