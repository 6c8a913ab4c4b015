//! Drafts on Matrix: a message that is edited.

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::DraftPlace;
use serde_json::json;

use crate::channel::TEXT_LIMIT;
use crate::error::CallError;
use crate::outgoing::{Outgoing, RichText, new_transaction};
use crate::target::SendTarget;
use crate::wire::cut;

/// The place of a draft.
#[derive(Debug)]
pub struct MatrixDraft {
    pub(crate) outgoing: Outgoing,
    pub(crate) target: SendTarget,
}

impl DraftPlace for MatrixDraft {
    type Message = String;

    fn visible(&self, text: &str) -> String {
        cut(text, TEXT_LIMIT).to_owned()
    }

    fn intent(&self, key: &str) -> Option<Value> {
        Some(json!((&self.target.room, key)))
    }

    async fn begin(&self, text: &str, key: &str) -> Result<Option<String>, ChannelError> {
        let content = RichText::plain(text).content(self.target.relation());
        let room = &self.target.room;
        let sent = self.outgoing.send_message(room, &content, key);
        Ok(Some(sent.await?))
    }

    async fn edit(&self, message: &String, text: &str) -> Result<(), ChannelError> {
        let content = RichText::plain(text).edit(message);
        let (room, transaction) = (&self.target.room, new_transaction());
        let sent = self.outgoing.send_message(room, &content, &transaction);
        sent.await.map(drop).map_err(CallError::repeatable)
    }

    async fn remove(&self, message: &String) -> Result<(), ChannelError> {
        let removed = self.outgoing.redact(&self.target.room, message).await;
        removed.map_err(CallError::repeatable)
    }

    fn locator(&self, message: &String) -> Option<Value> {
        Some(json!([self.target.room, message]))
    }
}
