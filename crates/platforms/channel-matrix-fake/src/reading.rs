//! Earlier messages, and single events.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, success};
use crate::json::put;
use crate::model::Entry;
use crate::params::Params;
use crate::state::MatrixState;
use crate::sync::{batch, position};

/// Number of messages of a page without a limit.
const USUAL_LIMIT: u64 = 10;
/// Largest number of messages of a page.
const MOST: u64 = 1000;

impl Entry {
    /// Returns the event as the caller's device gets it, with the id of its room.
    pub(crate) fn in_room(&self, params: &Params, now: i64) -> Value {
        let mut event = self.shown(&params.user, &params.device, now);
        if let Some(members) = event.as_object_mut() {
            members.insert("room_id".to_owned(), json!(params.segment(0)));
        }
        event
    }
}

impl MatrixState {
    pub(crate) fn messages(&mut self, params: &Params) -> ApiResult {
        let (filter, now) = (self.page_filter(params)?, self.now());
        let room = self.joined_room(params.segment(0), &params.user)?;
        let is_back = params.queried("dir") == Some("b");
        let bound = |key| params.queried(key).map(position).transpose();
        let usual = if is_back { self.position } else { 0 };
        let from = bound("from")?.unwrap_or(usual);
        let to = bound("to")?;
        let limit = params.number("limit").unwrap_or(USUAL_LIMIT).clamp(1, MOST);
        let limit = usize::try_from(limit).unwrap_or_default();
        // A position is between two events: after the one with its number.
        let is_inside = |entry: &&Entry| {
            let place = entry.position;
            let inside = if is_back {
                place <= from && to.is_none_or(|to| place > to)
            } else {
                place > from && to.is_none_or(|to| place <= to)
            };
            inside && !entry.is_repeat && filter.admits_entry(entry)
        };
        let mut entries: Vec<_> = room.entries.iter().filter(is_inside).collect();
        if is_back {
            entries.reverse();
        }
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let chunk: Vec<_> = entries
            .iter()
            .map(|entry| entry.in_room(params, now))
            .collect();
        let mut page = json!({"chunk": chunk, "start": batch(from), "state": []});
        if let Some(last) = entries.last().filter(|_| has_more || !is_back) {
            let end = if is_back {
                last.position - 1
            } else {
                last.position
            };
            put(&mut page, &["end"], batch(end));
        }
        success(page)
    }

    pub(crate) fn event(&mut self, params: &Params) -> ApiResult {
        // Homeservers do not tell rooms that the user may not see from unknown events.
        let room = self.rooms.get(params.segment(0));
        let room = room.filter(|room| room.membership(&params.user) == "join");
        let entry = room.and_then(|room| room.entry(params.segment(1)));
        let entry = entry.ok_or_else(|| ApiError::not_found("Event"))?;
        success(entry.in_room(params, self.now()))
    }
}
