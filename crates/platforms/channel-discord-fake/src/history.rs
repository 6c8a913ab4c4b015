//! Message history of a channel, in pages.

use serde_json::Value;

use crate::refusal::{RestError, RestResult};
use crate::state::DiscordState;

/// Maximum and default number of messages per page.
const LARGEST_PAGE: u64 = 100;
const USUAL_PAGE: u64 = 50;

impl DiscordState {
    /// Returns a page of a channel's messages, newest first: the oldest ones after `after`, the
    /// newest ones before `before`, or otherwise the newest. History messages do not name their
    /// server.
    pub(crate) fn history(&self, channel: u64, query: &[(String, String)]) -> RestResult {
        if self.room(channel).is_none() {
            return Err(RestError::unknown_channel());
        }
        let (mut limit, mut after, mut before) = (USUAL_PAGE, None, None);
        for (key, value) in query {
            let number = value
                .parse::<u64>()
                .map_err(|error| RestError::form(format!("{key}: {error}")))?;
            match key.as_str() {
                "limit" if (1..=LARGEST_PAGE).contains(&number) => limit = number,
                "after" => after = Some(number),
                "before" => before = Some(number),
                _ => {
                    return Err(RestError::form(format!(
                        "{key}={value}: not to be asked for"
                    )));
                }
            }
        }
        if after.is_some() && before.is_some() {
            return Err(RestError::form("after, before: one of them at a time"));
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (first, last) = (
            after.map_or(0, |after| after.saturating_add(1)),
            before.unwrap_or(u64::MAX),
        );
        let there = self.messages.range(first..last).map(|(_, message)| message);
        let there = there.filter(|message| message.channel == channel && !message.is_deleted);
        let mut page: Vec<_> = if after.is_some() {
            there.take(limit).collect()
        } else {
            there.rev().take(limit).collect()
        };
        page.sort_by_key(|message| std::cmp::Reverse(message.id));
        Ok(page
            .into_iter()
            .map(|message| self.message_json(message))
            .collect::<Value>())
    }
}
