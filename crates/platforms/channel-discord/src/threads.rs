//! Threads and their parent channels.
//!
//! A message names its channel, but not its kind. The API is asked once per channel.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serenity::model::channel::ChannelType;
use serenity::model::id::ChannelId;

use crate::api::{Api, Body};
use crate::error::{CallError, is_transient};
use crate::route::Route;

/// Most channels that are remembered.
const CAPACITY: usize = 4096;
/// Attempts at asking the API about a channel.
const MAX_ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Known channels and their parents.
#[derive(Debug, Default)]
pub(crate) struct ThreadParents(Mutex<VecDeque<(ChannelId, Option<ChannelId>)>>);

impl ThreadParents {
    /// Returns the parent of a thread; `None` for other channels and for unknown ones.
    pub(crate) async fn parent_of(&self, channel: ChannelId, api: &Api) -> Option<ChannelId> {
        if let Some(known) = self.cached(channel) {
            return known;
        }
        let fetched = fetch_parent(channel, api).await;
        if let Err(error) = &fetched {
            tracing::warn!(%channel, %error, "a channel cannot be looked up and counts as no thread");
            // A transient failure is no answer.
            if is_transient(error) {
                return None;
            }
        }
        let parent = fetched.ok().flatten();
        self.remember(channel, parent);
        parent
    }

    /// Returns the known parent of a channel.
    fn cached(&self, channel: ChannelId) -> Option<Option<ChannelId>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .rev()
            .find(|(id, _)| *id == channel)
            .map(|(_, parent)| *parent)
    }

    /// Records the parent of a channel.
    pub(crate) fn remember(&self, channel: ChannelId, parent: Option<ChannelId>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().any(|(id, _)| *id == channel) {
            return;
        }
        if known.len() >= CAPACITY {
            known.pop_front();
        }
        known.push_back((channel, parent));
    }
}

async fn fetch_parent(channel: ChannelId, api: &Api) -> Result<Option<ChannelId>, CallError> {
    #[derive(Deserialize)]
    struct Found {
        #[serde(rename = "type")]
        kind: ChannelType,
        parent_id: Option<ChannelId>,
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match api
            .call::<Found>(&Route::channel(channel), Body::Empty)
            .await
        {
            Ok(found) => return Ok(parent_of_kind(found.kind, found.parent_id)),
            Err(error) if is_transient(&error) && tries < MAX_ATTEMPTS => {
                tokio::time::sleep(error.retry_after().unwrap_or(PAUSE * tries)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the parent of a thread. That of other channels is their category.
pub(crate) fn parent_of_kind(kind: ChannelType, parent: Option<ChannelId>) -> Option<ChannelId> {
    let is_thread = matches!(
        kind,
        ChannelType::NewsThread | ChannelType::PublicThread | ChannelType::PrivateThread
    );
    parent.filter(|_| is_thread)
}
