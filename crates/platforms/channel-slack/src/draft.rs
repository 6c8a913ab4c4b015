//! Drafts on Slack.

use std::sync::Arc;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::DraftPlace;
use serde_json::json;
use slack_morphism::SlackMessageContent;

use crate::api::Api;
use crate::outbound::{EDIT_LIMIT, delete, post, update, with_key};
use crate::target::SendTarget;
use crate::text::{escaped, head};

/// The place of a draft.
#[derive(Debug)]
pub struct SlackDraft {
    pub(crate) api: Arc<Api>,
    pub(crate) target: SendTarget,
}

impl DraftPlace for SlackDraft {
    type Message = String;

    fn visible(&self, text: &str) -> String {
        visible(text)
    }

    fn intent(&self, key: &str) -> Option<Value> {
        Some(json!((&self.target.chat, &self.target.thread, key)))
    }

    async fn begin(&self, text: &str, key: &str) -> Result<Option<String>, ChannelError> {
        Ok(post(&self.api, &self.target, with_key(content(text), key)).await?)
    }

    async fn edit(&self, message: &String, text: &str) -> Result<(), ChannelError> {
        Ok(update(&self.api, &self.target, message, content(text)).await?)
    }

    async fn remove(&self, message: &String) -> Result<(), ChannelError> {
        Ok(delete(&self.api, &self.target, message).await?)
    }

    fn locator(&self, message: &String) -> Option<Value> {
        Some(json!((&self.target.chat, message)))
    }
}

fn content(text: &str) -> SlackMessageContent {
    SlackMessageContent::new().with_text(text.to_owned())
}

/// Escapes a text, so that nothing in it is a mention or a link, and cuts it to what an edit
/// accepts.
fn visible(text: &str) -> String {
    let mut limit = EDIT_LIMIT;
    loop {
        let text = escaped(head(text, limit));
        let over = text.chars().count().saturating_sub(EDIT_LIMIT);
        if over == 0 {
            return text;
        }
        limit = limit.saturating_sub(over.div_ceil(5).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_text_is_escaped_and_truncated() {
        assert_eq!(visible("<@U1> & 1"), "&lt;@U1&gt; &amp; 1");
        let visible = visible(&"&語".repeat(4500));
        assert!(
            (EDIT_LIMIT - 10..=EDIT_LIMIT).contains(&visible.chars().count()),
            "{}",
            visible.chars().count()
        );
    }
}
