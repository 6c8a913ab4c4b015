//! Conversations and people, in pages.

use std::collections::BTreeMap;

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::model::Conversation;
use crate::model::StoredMessage;
use crate::params::Params;
use crate::state::SlackState;

impl SlackState {
    pub(crate) fn open_conversation(&mut self, params: &Params) -> ApiResult {
        let user = params.text("users");
        let Some(person) = self.people.get(user) else {
            return Err(ApiError::new("user_not_found"));
        };
        let (id, name) = (person.direct(), person.name.clone());
        if !self.channels.contains_key(&id) {
            self.add_channel(&id, &name, true);
        }
        Ok(json!({"channel": {"id": id}}))
    }

    pub(crate) fn list_conversations(&self, params: &Params) -> ApiResult {
        let shown = self.channels.iter().filter(|(id, _)| !id.starts_with('D'));
        let json = |(id, channel): (&String, &Conversation)| json!({"id": id, "name": channel.name, "is_channel": true, "is_member": channel.has_bot});
        page("channels", shown.map(json).collect(), params)
    }

    pub(crate) fn list_people(&self, params: &Params) -> ApiResult {
        let json = |person: &crate::incoming::Person| {
            let profile =
                json!({"display_name": person.name, "real_name": format!("{} Real", person.name)});
            json!({"id": person.id, "name": person.name, "deleted": false, "is_bot": false, "profile": profile})
        };
        page("members", self.people.values().map(json).collect(), params)
    }

    /// Returns the messages of a channel, newest first, without those in threads.
    pub(crate) fn history(&self, params: &Params) -> ApiResult {
        let channel = self.writable_channel(params.text("channel"))?;
        let is_shown = |_: &str, message: &StoredMessage| {
            message.thread.is_none() || message.subtype.as_deref() == Some("thread_broadcast")
        };
        let messages = self.messages(&channel, params, is_shown);
        page("messages", messages.into_iter().rev().collect(), params)
    }

    /// Returns the messages of a thread, oldest first. The root comes first whatever range is
    /// requested.
    pub(crate) fn replies(&self, params: &Params) -> ApiResult {
        let channel = self.writable_channel(params.text("channel"))?;
        let root = params.text("ts");
        let known = self
            .channels
            .get(&channel)
            .ok_or_else(|| ApiError::new("channel_not_found"))?;
        let first = known
            .messages
            .get(root)
            .ok_or_else(|| ApiError::new("thread_not_found"))?;
        let mut messages =
            vec![known.shown(root, first, &known.threads(), self.shows_metadata(params))];
        let is_reply = |ts: &str, message: &StoredMessage| {
            message.thread.as_deref() == Some(root) && ts != root
        };
        messages.extend(self.messages(&channel, params, is_reply));
        page("messages", messages, params)
    }

    fn shows_metadata(&self, params: &Params) -> bool {
        params.flag("include_all_metadata") && !self.hides_metadata
    }

    fn messages(
        &self,
        channel: &str,
        params: &Params,
        is_meant: impl Fn(&str, &StoredMessage) -> bool,
    ) -> Vec<Value> {
        let (oldest, latest) = (params.given("oldest"), params.given("latest"));
        let takes_ends = params.flag("inclusive");
        let is_in_time = |ts: &str| {
            let after = oldest.is_none_or(|oldest| ts > oldest || (takes_ends && ts == oldest));
            after && latest.is_none_or(|latest| ts < latest || (takes_ends && ts == latest))
        };
        let Some(channel) = self.channels.get(channel) else {
            return Vec::new();
        };
        let threads = channel.threads();
        let all = channel.messages.iter();
        let shown = all
            .filter(|(ts, message)| !message.is_deleted && is_in_time(ts) && is_meant(ts, message));
        shown
            .map(|(ts, message)| channel.shown(ts, message, &threads, self.shows_metadata(params)))
            .collect()
    }
}

/// Number of replies and `ts` of the last reply, by root message.
type ThreadSummaries<'a> = BTreeMap<&'a str, (usize, &'a str)>;

impl Conversation {
    fn threads(&self) -> ThreadSummaries<'_> {
        let mut threads = ThreadSummaries::new();
        for (ts, message) in self
            .messages
            .iter()
            .filter(|(_, message)| !message.is_deleted)
        {
            if let Some(root) = &message.thread {
                let (count, last) = threads.entry(root).or_default();
                (*count, *last) = (*count + 1, ts);
            }
        }
        threads
    }

    /// Returns a message as history and replies show it.
    fn shown(
        &self,
        ts: &str,
        message: &StoredMessage,
        threads: &ThreadSummaries<'_>,
        with_metadata: bool,
    ) -> Value {
        let mut json = message.json(ts, with_metadata);
        if let Some((count, last)) = threads.get(ts) {
            set(&mut json, "thread_ts", ts);
            set(&mut json, "reply_count", *count);
            set(&mut json, "latest_reply", *last);
        }
        if let Some(root) = message
            .thread
            .as_ref()
            .and_then(|root| self.messages.get(root))
        {
            set(&mut json, "parent_user_id", root.user.as_str());
        }
        json
    }
}

/// Returns one page of a list. The cursor names the start of the next page.
fn page(name: &str, all: Vec<Value>, params: &Params) -> ApiResult {
    let limit = params.number("limit").unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(ApiError::new("invalid_limit"));
    }
    let start = match params.given("cursor") {
        None => 0,
        Some(cursor) => cursor
            .parse::<usize>()
            .map_err(|_not_ours| ApiError::new("invalid_cursor"))?,
    };
    let (count, end) = (all.len(), start + limit);
    let items: Vec<Value> = all.into_iter().skip(start).take(limit).collect();
    let cursor = if end < count {
        end.to_string()
    } else {
        String::new()
    };
    let mut body = json!({"has_more": end < count, "response_metadata": {"next_cursor": cursor}});
    set(&mut body, name, items);
    Ok(body)
}
