//! Drafts on WeCom: the stream of a message grows, and becomes the reply.
//!
//! Decision: a draft that no reply completes cannot be deleted, so an ellipsis replaces its text.
//! The stream stays open then, because the turn may go on in it; it is finished by the reply, by
//! the end of the turn, or before it is too old. If a stream is refused, none is begun for some
//! minutes: replies arrive without drafts, too.

use std::sync::Arc;

use nanobot_channel::markup::ZERO_WIDTH_SPACE;
use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{DraftPause, DraftPlace};
use serde::{Deserialize, Serialize};

use crate::channel::TEXT_LIMIT;
use crate::error::CallError;
use crate::gateway::Gateway;
use crate::turn_stream::{StreamText, TurnStreams};

/// The text of a draft that is no reply.
pub(crate) const WITHDRAWN: &str = "…";

/// The place of a draft: the stream of a message.
#[derive(Debug)]
pub struct WeComDraft {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) streams: Arc<TurnStreams>,
    pub(crate) pause: Arc<DraftPause>,
    pub(crate) req_id: String,
}

/// A draft, as the stream of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeComStream {
    pub(crate) req_id: String,
    pub(crate) stream: String,
}

impl WeComDraft {
    /// Shows a text in the stream of the message. Can be repeated.
    async fn show(&self, text: &str) -> Result<StreamText, ChannelError> {
        let connection = self.gateway.connection();
        let new_id = || self.gateway.new_id("stream");
        let shown = self.streams.show(&self.req_id, connection, text, new_id);
        let ended = || ChannelError::Refused("the stream takes nothing any more".to_owned());
        let shown = shown.ok_or_else(ended)?;
        self.send(&shown, false).await?;
        Ok(shown)
    }

    async fn send(&self, shown: &StreamText, finish: bool) -> Result<(), CallError> {
        let (cmd, body) = shown.frame(finish);
        let sent = self.gateway.reply(cmd, &shown.req_id, body).await;
        sent.map_err(CallError::unambiguous)
    }
}

impl DraftPlace for WeComDraft {
    type Message = WeComStream;

    fn visible(&self, text: &str) -> String {
        visible(text)
    }

    async fn begin(&self, text: &str, _key: &str) -> Result<Option<WeComStream>, ChannelError> {
        let shown = self.show(text).await;
        if let Err(error @ ChannelError::Refused(_)) = &shown {
            tracing::info!(%error, "replies are not shown while they are generated");
            self.pause.begin();
        }
        let StreamText { req_id, stream, .. } = shown?;
        Ok(Some(WeComStream { req_id, stream }))
    }

    async fn edit(&self, _draft: &WeComStream, text: &str) -> Result<(), ChannelError> {
        self.show(text).await.map(drop)
    }

    async fn remove(&self, draft: &WeComStream) -> Result<(), ChannelError> {
        if self.streams.knows(&draft.req_id) {
            return match self.streams.open_stream(&draft.req_id) {
                Some(_) => self.show(WITHDRAWN).await.map(drop),
                // It was too old, and is finished.
                None => Ok(()),
            };
        }
        // A draft of an earlier process.
        let withdrawn = StreamText {
            req_id: draft.req_id.clone(),
            stream: draft.stream.clone(),
            text: WITHDRAWN.to_owned(),
        };
        Ok(self.send(&withdrawn, true).await?)
    }

    async fn leave(&self, draft: &WeComStream) -> Result<(), ChannelError> {
        match self.streams.take_open(&draft.req_id) {
            Some(open) => Ok(self.send(&open, true).await?),
            None => Ok(()),
        }
    }

    fn locator(&self, draft: &WeComStream) -> Option<Value> {
        serde_json::to_value(draft).ok()
    }
}

/// Returns as much of a text as fits into a stream. It is shown as Markdown, as far as it goes;
/// tags and pictures in it are divided, so that an unfinished reply fetches nothing.
pub(crate) fn visible(text: &str) -> String {
    let (mut shown, mut last) = (String::new(), ' ');
    for c in text.chars() {
        let begins_tag = last == '<' && (c.is_ascii_alphabetic() || c == '/');
        let is_divided = begins_tag || (last == '!' && c == '[');
        let divider = if is_divided {
            ZERO_WIDTH_SPACE.len_utf8()
        } else {
            0
        };
        if shown.len() + divider + c.len_utf8() > TEXT_LIMIT {
            break;
        }
        if is_divided {
            shown.push(ZERO_WIDTH_SPACE);
        }
        shown.push(c);
        last = c;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_text_is_harmless_and_truncated() {
        assert_eq!(
            visible("<font> ![x](y) 1 < 2 **b**"),
            "<\u{200b}font> !\u{200b}[x](y) 1 < 2 **b**"
        );
        let long = visible(&"語".repeat(TEXT_LIMIT));
        assert_eq!(long.len(), TEXT_LIMIT - TEXT_LIMIT % 3);
    }
}
