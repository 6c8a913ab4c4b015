//! Message history of a channel.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nanobot_channel_kit::catch_up::{Missed, read_pages};
use serde_json::value::RawValue;

use crate::api::Body;
use crate::channel::Discord;
use crate::error::CallError;
use crate::marks::{ChannelLag, SeenNote};
use crate::route::Route;
use crate::wire::RawMessage;

/// Messages in a page.
const PAGE_SIZE: usize = 100;
/// Maximum number of pages of a channel; messages before them are left out.
const MAX_PAGES: usize = 3;
/// Age of the oldest message that is handled.
const MAX_AGE: Duration = Duration::from_hours(24);

/// The missed messages of a channel.
#[derive(Debug)]
pub(crate) struct MissedInChannel {
    pub(crate) messages: Missed<SeenNote, RawMessage>,
    /// `true` if some are left out.
    pub(crate) is_cut: bool,
}

impl Discord {
    /// Fetches the missed messages of a channel.
    pub(crate) async fn fetch_missed(&self, lag: ChannelLag) -> Result<MissedInChannel, CallError> {
        let last = lag.after;
        let mut fetched = self.fetch_page(&lag, &format!("after={last}&")).await?;
        let mut is_whole = fetched.len() < PAGE_SIZE;
        if !is_whole {
            // A full page after the mark is the oldest one. The newest count, so they are read
            // backwards.
            let lag = &lag;
            let page = async |before: Option<u64>| {
                let range = before.map(|id| format!("before={id}&")).unwrap_or_default();
                let page = self.fetch_page(lag, &range).await?;
                let ids = page.iter().map(|message| message.id.get());
                let oldest = ids.min().unwrap_or_default();
                let is_last = page.len() < PAGE_SIZE || oldest <= last;
                Ok((page, Some(oldest).filter(|_| !is_last)))
            };
            (fetched, is_whole) = read_pages(MAX_PAGES, page).await?;
        }
        fetched.retain(|message| message.id.get() > last);
        let newest = fetched.iter().map(|message| message.id.get()).max();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let horizon = now.saturating_sub(MAX_AGE).as_secs();
        let count = fetched.len();
        fetched.retain(|message| message.written.is_none_or(|written| written >= horizon));
        let is_cut = !is_whole || fetched.len() < count;
        let place = lag.place;
        let messages = fetched.into_iter();
        let messages = messages.map(|message| (message.id.get(), (place, message)));
        Ok(MissedInChannel {
            messages: Missed {
                messages: messages.collect(),
                caught_up: vec![(lag, newest.unwrap_or(last))],
            },
            is_cut,
        })
    }

    /// Fetches a page of messages; `range` is the beginning of the query.
    async fn fetch_page(
        &self,
        lag: &ChannelLag,
        range: &str,
    ) -> Result<Vec<RawMessage>, CallError> {
        let route = Route::messages(lag.place, &format!("{range}limit={PAGE_SIZE}"));
        let page: Vec<Box<RawValue>> = self.api.call(&route, Body::Empty).await?;
        let messages = page.iter();
        Ok(messages
            .filter_map(|raw| RawMessage::peek(raw.get(), lag.facts).ok())
            .collect())
    }
}
