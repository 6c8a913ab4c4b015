//! Keeps the typing indicator alive from a message's acceptance to the reply.
//!
//! Decision: one small task per chat that is being worked for, bounded in number and in time; what
//! goes beyond shows no indicator, which nobody is hurt by.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{Channel, ChatId, DeliveryContext};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many chats of a channel show the indicator at a time.
const CHATS: usize = 64;
/// How long an indicator is kept alive at most: a turn may end without a message.
const LONGEST: Duration = Duration::from_mins(10);

/// A chat, or a thread of it.
type Place = (ChatId, Option<String>);

/// Keeps the indicators of one channel.
#[derive(Clone, Debug)]
pub(crate) struct TypingKeeper {
    channel: Arc<dyn Channel>,
    shown: Arc<Mutex<HashMap<Place, CancellationToken>>>,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl TypingKeeper {
    pub(crate) fn new(channel: Arc<dyn Channel>, cancel: CancellationToken, tasks: TaskTracker) -> Self {
        Self { channel, shown: Arc::default(), cancel, tasks }
    }

    /// Shows the indicator in a chat until [`TypingKeeper::stop`].
    pub(crate) fn start(&self, chat: ChatId, delivery: DeliveryContext) {
        if self.channel.typing().is_none() {
            return;
        }
        let place = (chat, delivery.thread.clone());
        let token = self.cancel.child_token();
        {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            if shown.len() >= CHATS || shown.contains_key(&place) {
                return;
            }
            shown.insert(place.clone(), token.clone());
        }
        let keeper = self.clone();
        self.tasks.spawn(async move {
            if token.run_until_cancelled(keeper.keep(&place.0, &delivery)).await.is_some() {
                keeper.stop(&place.0, &delivery);
            }
        });
    }

    /// The reply is there.
    pub(crate) fn stop(&self, chat: &ChatId, delivery: &DeliveryContext) {
        let place = (chat.clone(), delivery.thread.clone());
        let token = self.shown.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
        if let Some(token) = token {
            token.cancel();
        }
    }

    async fn keep(&self, chat: &ChatId, delivery: &DeliveryContext) {
        let Some(typing) = self.channel.typing() else { return };
        let began = Instant::now();
        let pause = typing.lasts().mul_f64(0.8).max(Duration::from_secs(1));
        while began.elapsed() < LONGEST {
            if let Err(error) = typing.show(chat, delivery).await {
                tracing::debug!(channel = %self.channel.name(), %error, "the typing indicator was not shown");
            }
            tokio::time::sleep(pause).await;
        }
    }
}
