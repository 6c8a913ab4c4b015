//! Where a draft is shown on Slack.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nanobot_channel::{ChannelContext, ChannelError, Value};
use nanobot_channel_kit::DraftPlace;
use serde_json::json;
use slack_morphism::SlackMessageContent;

use crate::api::Api;
use crate::channel::SlackChannel;
use crate::error::CallError;
use crate::outbound::{EDIT_LIMIT, delete, named, post, update};
use crate::place::Place;
use crate::text::{escaped, head};

/// A conversation, and what it is written to with.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) api: Arc<Api>,
    pub(crate) place: Place,
}

impl DraftPlace for Draft {
    type Message = String;

    fn visible(&self, text: &str) -> String {
        visible(text)
    }

    async fn begin(&self, text: &str) -> Result<Option<String>, ChannelError> {
        Ok(post(&self.api, &self.place, named(content(text), "draft")).await?)
    }

    async fn edit(&self, message: &String, text: &str) -> Result<(), ChannelError> {
        Ok(update(&self.api, &self.place, message, content(text)).await?)
    }

    async fn remove(&self, message: &String) -> Result<(), ChannelError> {
        Ok(delete(&self.api, &self.place, message).await?)
    }

    fn trace(&self, message: &String) -> Option<Value> {
        Some(json!((&self.place.chat, message)))
    }
}

impl SlackChannel {
    /// Takes away what a kill left of drafts, and notes new ones from now on; until then there are
    /// none.
    pub(crate) async fn recover_drafts(&self, account: &str, context: &ChannelContext) {
        let api = Arc::clone(&self.api);
        let delete = move |(chat, message): (String, String)| {
            let (api, place) = (Arc::clone(&api), Place { chat, thread: None });
            async move {
                delete(&api, &place, &message)
                    .await
                    .map_err(CallError::repeatable)
            }
        };
        self.drafts.recover(context, account, delete).await;
        self.may_draft.store(true, Ordering::Relaxed);
    }
}

fn content(text: &str) -> SlackMessageContent {
    SlackMessageContent::new().with_text(text.to_owned())
}

/// As Slack shows it: nothing in it is a mention, or a link of Slack's kind.
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
    fn what_is_shown_is_escaped_and_fits() {
        assert_eq!(visible("<@U1> & 1"), "&lt;@U1&gt; &amp; 1");
        let visible = visible(&"&語".repeat(4500));
        assert!(
            (EDIT_LIMIT - 10..=EDIT_LIMIT).contains(&visible.chars().count()),
            "{}",
            visible.chars().count()
        );
    }
}
