//! Drafts on DingTalk: an AI card whose text grows, and becomes the reply.
//!
//! Decision: if a card is refused, none is created for some minutes. The usual reason is a missing
//! permission or an unknown template, and replies arrive without drafts, too. A draft that no reply
//! completes cannot be deleted, so an ellipsis replaces its text.

use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::markup::ZERO_WIDTH_SPACE;
use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{DraftPause, DraftPlace};
use serde_json::json;

use crate::api::Api;
use crate::card::CardTemplate;
use crate::channel::TEXT_LIMIT;
use crate::error::CallError;
use crate::target::SendTarget;

/// The text of a draft that is no reply.
const WITHDRAWN: &str = "…";

/// The place of a draft.
#[derive(Debug)]
pub struct DingTalkDraft {
    pub(crate) api: Arc<Api>,
    pub(crate) template: CardTemplate,
    /// `None` for a draft of an earlier process.
    pub(crate) target: Option<SendTarget>,
    pub(crate) pause: Arc<DraftPause>,
}

/// A draft, as its card.
#[derive(Clone, Debug)]
pub struct DraftCard {
    track: String,
    /// The text that was last shown.
    shown: Arc<Mutex<String>>,
}

impl DraftCard {
    /// Names a card.
    pub(crate) fn new(track: String, text: &str) -> Self {
        Self {
            track,
            shown: Arc::new(Mutex::new(text.to_owned())),
        }
    }

    /// Returns the name of the card.
    pub(crate) fn track(&self) -> &str {
        &self.track
    }

    fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }

    fn show(&self, text: &str) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone_into(&mut shown);
    }
}

impl DingTalkDraft {
    /// Finishes a card with a text. Can be repeated.
    pub(crate) async fn finish(&self, draft: &DraftCard, text: &str) -> Result<(), CallError> {
        let finished = self.template.finish(&self.api, &draft.track, text);
        finished.await.map_err(CallError::unambiguous)
    }

    /// Replaces the text of a card that is no reply.
    pub(crate) async fn withdraw(&self, draft: &DraftCard) -> Result<(), CallError> {
        self.finish(draft, WITHDRAWN).await
    }
}

impl DraftPlace for DingTalkDraft {
    type Message = DraftCard;

    fn visible(&self, text: &str) -> String {
        visible(text)
    }

    /// The name of the card, which is the key.
    fn intent(&self, key: &str) -> Option<Value> {
        Some(key.into())
    }

    async fn begin(&self, text: &str, key: &str) -> Result<Option<DraftCard>, ChannelError> {
        let Some(target) = &self.target else {
            return Ok(None);
        };
        let create = || self.template.create(&self.api, target, key, text);
        let created = match create().await {
            // There is only one card of this name.
            Err(error) if error.is_ambiguous() => create().await,
            created => created,
        };
        if let Err(error) = &created
            && error.is(|refusal| !refusal.is_about_the_app())
        {
            tracing::info!(%error, "replies are not shown while they are generated; the app may need the permissions Card.Instance.Write and Card.Streaming.Write, and cardTemplateId a template of an AI card");
            self.pause.begin();
        }
        created?;
        Ok(Some(DraftCard::new(key.to_owned(), text)))
    }

    async fn edit(&self, draft: &DraftCard, text: &str) -> Result<(), ChannelError> {
        let written = self.template.write(&self.api, &draft.track, text);
        written.await?;
        draft.show(text);
        Ok(())
    }

    async fn remove(&self, draft: &DraftCard) -> Result<(), ChannelError> {
        Ok(self.withdraw(draft).await?)
    }

    async fn leave(&self, draft: &DraftCard) -> Result<(), ChannelError> {
        Ok(self.finish(draft, &draft.shown()).await?)
    }

    fn locator(&self, draft: &DraftCard) -> Option<Value> {
        Some(json!(draft.track))
    }
}

/// Returns as much of a text as fits into a card. It is shown as Markdown, as far as it goes; tags
/// and pictures in it are divided, so that an unfinished reply fetches nothing.
fn visible(text: &str) -> String {
    let (mut shown, mut last) = (String::new(), ' ');
    let mut room = TEXT_LIMIT;
    for c in text.chars() {
        let begins_tag = last == '<' && (c.is_ascii_alphabetic() || c == '/');
        let is_divided = begins_tag || (last == '!' && c == '[');
        let length = 1 + usize::from(is_divided);
        if length > room {
            break;
        }
        room -= length;
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
        let long = visible(&"語".repeat(TEXT_LIMIT + 1));
        assert_eq!(long.chars().count(), TEXT_LIMIT);
    }
}
