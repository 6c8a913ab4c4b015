//! Conversations and people, page by page.

use serde_json::{Value, json};

use super::api::{ApiError, Outcome};
use super::params::Params;
use super::state::{Channel, State};
use crate::json::set;

impl State {
    pub(super) fn open_conversation(&mut self, params: &Params) -> Outcome {
        let user = params.text("users");
        let Some(person) = self.people.get(user) else { return Err(ApiError::new("user_not_found")) };
        let (id, name) = (person.direct(), person.name.clone());
        if !self.channels.contains_key(&id) {
            self.add_channel(&id, &name, true);
        }
        Ok(json!({"channel": {"id": id}}))
    }

    pub(super) fn list_conversations(&self, params: &Params) -> Outcome {
        let shown = self.channels.iter().filter(|(id, _)| !id.starts_with('D'));
        let json = |(id, channel): (&String, &Channel)| json!({"id": id, "name": channel.name, "is_channel": true, "is_member": channel.has_bot});
        page("channels", shown.map(json).collect(), params)
    }

    pub(super) fn list_people(&self, params: &Params) -> Outcome {
        let json = |person: &super::Person| {
            let profile = json!({"display_name": person.name, "real_name": format!("{} Real", person.name)});
            json!({"id": person.id, "name": person.name, "deleted": false, "is_bot": false, "profile": profile})
        };
        page("members", self.people.values().map(json).collect(), params)
    }

    /// The messages of a channel, the newest first, without those in threads.
    pub(super) fn history(&self, params: &Params) -> Outcome {
        let channel = self.writable(params.text("channel"))?;
        let messages = self.messages(&channel, params, |_, thread| thread.is_none());
        page("messages", messages.into_iter().rev().collect(), params)
    }

    /// The messages of a thread, the oldest first, beginning with its root whatever else is asked.
    pub(super) fn replies(&self, params: &Params) -> Outcome {
        let channel = self.writable(params.text("channel"))?;
        let root = params.text("ts");
        let known = self.channels.get(&channel).and_then(|known| known.messages.get(root));
        let first = known.ok_or_else(|| ApiError::new("thread_not_found"))?.json(root, self.shows_metadata(params));
        let mut messages = vec![first];
        messages.extend(self.messages(&channel, params, |ts, thread| thread == Some(root) && ts != root));
        page("messages", messages, params)
    }

    fn shows_metadata(&self, params: &Params) -> bool {
        params.flag("include_all_metadata") && !self.hides_metadata
    }

    fn messages(&self, channel: &str, params: &Params, is_meant: impl Fn(&str, Option<&str>) -> bool) -> Vec<Value> {
        let (oldest, latest) = (params.given("oldest"), params.given("latest"));
        let takes_ends = params.flag("inclusive");
        let is_in_time = |ts: &str| {
            let after = oldest.is_none_or(|oldest| ts > oldest || (takes_ends && ts == oldest));
            after && latest.is_none_or(|latest| ts < latest || (takes_ends && ts == latest))
        };
        let all = self.channels.get(channel).into_iter().flat_map(|channel| &channel.messages);
        let shown = all
            .filter(|(ts, message)| !message.is_deleted && is_in_time(ts) && is_meant(ts, message.thread.as_deref()));
        shown.map(|(ts, message)| message.json(ts, self.shows_metadata(params))).collect()
    }
}

/// One page of a list. The cursor says where the next one begins.
fn page(name: &str, all: Vec<Value>, params: &Params) -> Outcome {
    let limit = params.number("limit").unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(ApiError::new("invalid_limit"));
    }
    let start = match params.given("cursor") {
        None => 0,
        Some(cursor) => cursor.parse::<usize>().map_err(|_not_ours| ApiError::new("invalid_cursor"))?,
    };
    let (count, end) = (all.len(), start + limit);
    let items: Vec<Value> = all.into_iter().skip(start).take(limit).collect();
    let cursor = if end < count { end.to_string() } else { String::new() };
    let mut body = json!({"has_more": end < count, "response_metadata": {"next_cursor": cursor}});
    set(&mut body, name, items);
    Ok(body)
}
