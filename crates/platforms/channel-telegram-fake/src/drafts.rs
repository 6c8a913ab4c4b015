//! Drafts (`sendMessageDraft`): previews of a message that is being written.
//!
//! Decision: previews age by [`TelegramFake::advance`](crate::TelegramFake::advance) only, so that
//! a test never depends on the speed of its machine. A chat or topic shows one preview, the latest,
//! until the bot sends a message there.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::html::utf16_length;
use crate::params::Params;
use crate::sending::{TEXT_LIMIT, formatted, thread};
use crate::state::TelegramState;

/// The time that a preview is shown.
const LIFETIME: Duration = Duration::from_secs(30);

/// A preview that a person sees.
#[derive(Clone, Debug, PartialEq)]
pub struct SentDraft {
    /// The private chat.
    pub chat_id: i64,
    /// The topic.
    pub thread_id: Option<i64>,
    /// The id that the bot chose.
    pub draft_id: i64,
    /// The text; empty for the placeholder.
    pub text: String,
    /// Its formatting.
    pub entities: Vec<Value>,
}

/// The previews that are shown now.
#[derive(Debug, Default)]
pub(crate) struct Previews {
    now: Duration,
    shown: Vec<(SentDraft, Duration)>,
}

impl Previews {
    /// Returns the previews of all chats, in the order in which they were last shown.
    pub(crate) fn all(&self) -> Vec<SentDraft> {
        self.shown.iter().map(|(draft, _)| draft.clone()).collect()
    }

    /// Removes the preview that a message replaces.
    pub(crate) fn remove(&mut self, chat_id: i64, thread_id: Option<i64>) {
        self.shown
            .retain(|(draft, _)| (draft.chat_id, draft.thread_id) != (chat_id, thread_id));
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.now = self.now.saturating_add(by);
        let now = self.now;
        self.shown
            .retain(|(_, shown_at)| now.saturating_sub(*shown_at) < LIFETIME);
    }

    fn show(&mut self, draft: SentDraft) {
        self.remove(draft.chat_id, draft.thread_id);
        self.shown.push((draft, self.now));
    }
}

impl TelegramState {
    pub(crate) fn send_draft(&mut self, params: &Params) -> ApiResult {
        let chat = self.chat(params)?;
        if chat.json.get("type").and_then(Value::as_str) != Some("private") {
            return Err(ApiError::peer_takes_no_drafts());
        }
        let thread_id = thread(chat, params)?;
        let draft_id = params.number("draft_id").filter(|id| *id != 0);
        let draft_id = draft_id.ok_or_else(|| ApiError::bad("TEXTDRAFT_ID_INVALID"))?;
        let formatted = formatted(params, "text", "entities")?;
        if utf16_length(&formatted.text) > TEXT_LIMIT {
            return Err(ApiError::bad("message is too long"));
        }
        self.previews.show(SentDraft {
            chat_id: params.number("chat_id").unwrap_or_default(),
            thread_id,
            draft_id,
            text: formatted.text,
            entities: formatted.entities,
        });
        Ok(json!(true))
    }
}
