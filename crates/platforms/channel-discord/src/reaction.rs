//! Reactions to messages that are worked on.
//!
//! One small task per message sets them in order and takes them away when the message is answered,
//! so that what is set late never stays.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::CancellationToken;
use reqwest::Method;
use serde::de::IgnoredAny;
use serenity::model::id::{ChannelId, MessageId};

use crate::api::{Api, Body};
use crate::channel::DiscordChannel;
use crate::route::Route;

/// How many messages carry reactions at a time.
const MARKED: usize = 256;
/// How long one does at most: nothing may tell that its turn is over.
const LONGEST: Duration = Duration::from_mins(30);

/// The messages that carry reactions.
#[derive(Debug, Default)]
pub(crate) struct Reactions(Mutex<Vec<(ChannelId, CancellationToken)>>);

impl Reactions {
    /// Notes a message; the token fires when it is answered. `None` when there are too many.
    fn begin(&self, channel: ChannelId) -> Option<CancellationToken> {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marked.retain(|(_, answered)| !answered.is_cancelled());
        if marked.len() >= MARKED {
            return None;
        }
        let answered = CancellationToken::new();
        marked.push((channel, answered.clone()));
        Some(answered)
    }

    /// Everything in a channel is answered.
    pub(crate) fn end(&self, channel: ChannelId) {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marked.retain(|(place, answered)| {
            let is_there = *place == channel;
            if is_there {
                answered.cancel();
            }
            !is_there
        });
    }
}

impl DiscordChannel {
    /// Shows by reactions that a message is worked on, until [`Reactions::end`].
    pub(crate) fn react(&self, channel: ChannelId, message: MessageId) {
        let (read, working) = (
            self.config.read_receipt_emoji.clone(),
            self.config.working_emoji.clone(),
        );
        if read.is_empty() && working.is_empty() {
            return;
        }
        let Some(answered) = self.reactions.begin(channel) else {
            return;
        };
        let (api, delay) = (Arc::clone(&self.api), self.config.working_emoji_delay());
        self.in_background(async move {
            let reaction =
                |method: Method, emoji: &str| Route::reaction(method, channel, message, emoji);
            set(&api, reaction(Method::PUT, &read), &read).await;
            let mut shown = vec![read];
            if tokio::time::timeout(delay, answered.cancelled())
                .await
                .is_err()
            {
                set(&api, reaction(Method::PUT, &working), &working).await;
                shown.push(working);
                // Over time it is taken away all the same.
                if tokio::time::timeout(LONGEST, answered.cancelled())
                    .await
                    .is_err()
                {
                    answered.cancel();
                }
            }
            for emoji in shown {
                set(&api, reaction(Method::DELETE, &emoji), &emoji).await;
            }
        });
    }
}

/// Sets or takes away a reaction. Without permission for it there is none.
async fn set(api: &Api, route: Route, emoji: &str) {
    if emoji.is_empty() {
        return;
    }
    for _ in 0..2 {
        match api.call::<IgnoredAny>(&route, Body::Empty).await {
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "a reaction could not be set or taken away");
                let Some(pause) = error.retry_after() else {
                    return;
                };
                tokio::time::sleep(pause).await;
            }
        }
    }
}
