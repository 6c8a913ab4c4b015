//! Native drafts: previews in private chats, by `sendMessageDraft` (Bot API 9.5).
//!
//! Decision: a preview is preferred to a message that is edited, because it is no message: a kill
//! leaves nothing behind. Where it is refused, the chat or the whole server is remembered, and
//! drafts are messages there until the next start.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, async_trait};
use nanobot_channel_kit::{DraftPreview, Recent};
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::api::Api;
use crate::draft::TelegramDraft;
use crate::error::{CallError, Refusal};
use crate::target::SendTarget;

const METHOD: &str = "sendMessageDraft";
/// Telegram shows a preview for 30 s.
const REFRESH_INTERVAL: Duration = Duration::from_secs(20);
/// Number of chats that are remembered as refusing.
const MAX_REFUSING: usize = 1024;
/// Ids stay positive as signed numbers, too.
const MAX_ID: u32 = i32::MAX as u32;

/// The previews of one bot.
#[derive(Debug)]
pub(crate) struct Previews {
    last_id: AtomicU32,
    /// `true` if they are disabled, or if the server does not know the method.
    is_off: AtomicBool,
    refusing: Mutex<Recent<i64>>,
}

impl Previews {
    pub(crate) fn new(is_enabled: bool) -> Self {
        Self {
            last_id: AtomicU32::new(0),
            is_off: AtomicBool::new(!is_enabled),
            refusing: Mutex::new(Recent::new(MAX_REFUSING)),
        }
    }

    /// Returns a new preview; `None` where none are shown.
    pub(crate) fn begin(self: &Arc<Self>, target: &SendTarget) -> Option<Preview> {
        let chat = target.chat_id();
        let is_shown = target.is_private() && self.are_shown_in(chat);
        is_shown.then(|| Preview {
            chat,
            id: self.last_id.fetch_add(1, Ordering::Relaxed) % MAX_ID + 1,
            previews: Arc::clone(self),
        })
    }

    fn are_shown_in(&self, chat: i64) -> bool {
        let refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_off.load(Ordering::Relaxed) && !refusing.contains(&chat)
    }

    /// Remembers a refusal, unless it concerns more than drafts or passes by itself.
    fn record(&self, chat: i64, refusal: &Refusal) {
        if refusal.is_unknown_method() {
            if !self.is_off.swap(true, Ordering::Relaxed) {
                tracing::info!(%refusal, "the server knows no native drafts; messages are edited");
            }
        } else if refusal.is_about_the_call() {
            tracing::debug!(chat, %refusal, "a chat refuses native drafts; messages are edited");
            let mut refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
            refusing.insert(chat);
        }
    }
}

/// The preview of one draft.
#[derive(Debug)]
pub(crate) struct Preview {
    chat: i64,
    id: u32,
    previews: Arc<Previews>,
}

impl Preview {
    /// `true` until previews are refused.
    pub(crate) fn is_accepted(&self) -> bool {
        self.previews.are_shown_in(self.chat)
    }

    async fn show(&self, api: &Api, target: &SendTarget, text: &str) -> Result<(), CallError> {
        let draft = MessageDraft {
            chat_id: self.chat,
            message_thread_id: target.thread().map(|thread| thread.0.0),
            draft_id: self.id,
            text,
        };
        let shown = api.call_by_name::<_, IgnoredAny>(METHOD, &draft).await;
        if let Err(CallError::Refused(refusal)) = &shown {
            self.previews.record(self.chat, refusal);
        }
        shown.map(drop)
    }
}

/// The parameters of the call.
#[derive(Debug, Serialize)]
struct MessageDraft<'a> {
    chat_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i32>,
    draft_id: u32,
    text: &'a str,
}

#[async_trait]
impl DraftPreview for TelegramDraft {
    async fn show(&self, text: &str) -> Result<(), ChannelError> {
        let Some(preview) = &self.preview else {
            let missing = "no native draft was begun here";
            return Err(ChannelError::Refused(missing.to_owned()));
        };
        let shown = preview.show(&self.api, &self.target, text).await;
        shown.map_err(CallError::repeatable)
    }

    fn refresh_interval(&self) -> Duration {
        REFRESH_INTERVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, description: &str) -> Refusal {
        Refusal {
            code,
            description: description.to_owned(),
            migrated_to: None,
        }
    }

    #[test]
    fn previews_are_shown_in_private_chats() {
        let previews = Arc::new(Previews::new(true));
        let ids = [7, 7, -42].map(|chat| {
            let preview = previews.begin(&SendTarget::chat(chat));
            preview.map(|preview| preview.id)
        });
        assert_eq!(ids, [Some(1), Some(2), None]);
        let previews = Arc::new(Previews::new(false));
        assert!(previews.begin(&SendTarget::chat(7)).is_none());
    }

    #[test]
    fn ids_are_never_zero() {
        let previews = Arc::new(Previews::new(true));
        for last in [MAX_ID - 1, MAX_ID, u32::MAX] {
            previews.last_id.store(last, Ordering::Relaxed);
            for _ in 0..2 {
                let id = previews.begin(&SendTarget::chat(7)).unwrap().id;
                assert!((1..=MAX_ID).contains(&id), "{id}");
            }
        }
    }

    #[test]
    fn refusals_end_previews_in_the_chat_or_everywhere() {
        let table = [
            (400, "Bad Request: TEXTDRAFT_PEER_INVALID", [false, true]),
            (400, "Bad Request: something new", [false, true]),
            (404, "Not Found", [false, false]),
            (404, "Not Found: method not found", [false, false]),
            (400, "Bad Request: method not found", [false, false]),
            (400, "Bad Request: message thread not found", [true, true]),
            (400, "Bad Request: chat not found", [true, true]),
            (401, "Unauthorized", [true, true]),
            (403, "Forbidden: bot was blocked by the user", [true, true]),
            (502, "Bad Gateway", [true, true]),
        ];
        for (code, description, expected) in table {
            let previews = Arc::new(Previews::new(true));
            previews.record(7, &refusal(code, description));
            let shown = [7, 8].map(|chat| previews.begin(&SendTarget::chat(chat)).is_some());
            assert_eq!(shown, expected, "{code} {description}");
        }
    }

    #[test]
    fn refusing_chats_are_bounded() {
        let previews = Arc::new(Previews::new(true));
        let peer = refusal(400, "Bad Request: TEXTDRAFT_PEER_INVALID");
        for chat in 1..=2 * MAX_REFUSING as i64 {
            previews.record(chat, &peer);
        }
        let known = previews.refusing.lock().unwrap().iter().count();
        assert_eq!(known, MAX_REFUSING);
    }
}
