//! The state as people and tests see it.

use serde_json::{Value, json};

use crate::connection::Push;
use crate::model::{Pushed, SentFile, SentMessage, StoredSend};
use crate::state::DingTalkState;
use crate::template;

impl DingTalkState {
    pub(crate) fn sent_messages(&self) -> Vec<SentMessage> {
        self.sent.iter().map(|sent| self.seen(sent)).collect()
    }

    fn seen(&self, sent: &StoredSend) -> SentMessage {
        let card = sent.card.as_ref().and_then(|track| self.cards.get(track));
        let content = card.map_or_else(|| sent.content.clone(), |card| json!(card.values));
        SentMessage {
            key: sent.key.clone(),
            chat_id: sent.chat.clone(),
            kind: sent.kind.clone(),
            text: card.map_or_else(|| template::visible(&sent.content), |card| card.text()),
            history: card.map(|card| card.history.clone()).unwrap_or_default(),
            card: sent.card.clone(),
            is_streaming: card.is_some_and(|card| !card.is_finished),
            is_failed: card.is_some_and(|card| card.is_failed),
            files: self.files_of(&sent.content),
            content,
        }
    }

    /// Returns the files that a message names by their media ids or addresses.
    fn files_of(&self, content: &Value) -> Vec<SentFile> {
        let ids = ["photoURL", "mediaId", "videoMediaId"].into_iter();
        let ids = ids.filter_map(|key| content.get(key)?.as_str());
        let file = |id: &str| match self.uploads.get(id) {
            Some(upload) => SentFile {
                name: upload.name.clone(),
                kind: upload.kind.clone(),
                bytes: upload.bytes.clone(),
            },
            None => SentFile {
                name: id.to_owned(),
                kind: "link".to_owned(),
                bytes: bytes::Bytes::new(),
            },
        };
        let mut files: Vec<SentFile> = ids.map(file).collect();
        // People see the name that the message gives to a file.
        if let (Some(name), Some(file)) = (
            content.get("fileName").and_then(Value::as_str),
            files.first_mut(),
        ) {
            file.name = name.to_owned();
        }
        files
    }

    fn pushes_of<'a>(&'a self, pushed: &'a Pushed) -> impl Iterator<Item = &'a Push> {
        let numbers = pushed.pushes.iter();
        numbers.filter_map(|number| self.pushes.get(*number))
    }

    pub(crate) fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.pushes_of(pushed).all(|push| push.is_acknowledged)
    }

    pub(crate) fn deliveries(&self, pushed: &Pushed) -> usize {
        self.pushes_of(pushed).map(|push| push.deliveries).sum()
    }

    pub(crate) fn refusals(&self, pushed: &Pushed) -> usize {
        self.pushes_of(pushed).map(|push| push.refusals).sum()
    }
}
