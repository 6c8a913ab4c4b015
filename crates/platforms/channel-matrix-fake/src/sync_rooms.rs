//! The rooms of a sync.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::json::put;
use crate::model::{Entry, Room};
use crate::state::MatrixState;
use crate::sync::{SyncCall, batch};

/// Types of state events that an invitation shows.
const STRIPPED: &[&str] = &[
    "m.room.create",
    "m.room.name",
    "m.room.avatar",
    "m.room.topic",
    "m.room.join_rules",
    "m.room.canonical_alias",
    "m.room.encryption",
];

/// The timeline of a room in a sync.
struct Timeline<'a> {
    entries: Vec<&'a Entry>,
    is_limited: bool,
    /// Position before the first event.
    before: u64,
}

impl<'a> Timeline<'a> {
    /// Returns the newest events of a room after a position, up to another one.
    fn read(call: &SyncCall, room: &'a Room, after: u64, until: u64) -> Self {
        let filter = &call.filter.timeline;
        let new = room.entries.iter().filter(|entry| {
            entry.position > after && entry.position <= until && filter.admits_entry(entry)
        });
        let mut entries: Vec<_> = new.collect();
        let surplus = entries.len().saturating_sub(filter.limit());
        entries.drain(..surplus);
        let first = entries.first().map(|entry| entry.position);
        Self {
            is_limited: surplus > 0,
            before: first.map_or(until, |position| position - 1),
            entries,
        }
    }

    fn body(&self, call: &SyncCall, now: i64) -> Value {
        let events = self.entries.iter().map(|entry| entry.shown_to(call, now));
        json!({
            "events": events.collect::<Vec<_>>(), "limited": self.is_limited,
            "prev_batch": batch(self.before),
        })
    }
}

impl Entry {
    /// Returns the event as a device gets it.
    fn shown_to(&self, call: &SyncCall, now: i64) -> Value {
        self.shown(&call.user, &call.device, now)
    }

    pub(crate) fn shown(&self, user: &str, device: &str, now: i64) -> Value {
        let mut event = self.event.clone();
        let Some(members) = event.as_object_mut() else {
            return event;
        };
        let Some(time) = members.get("origin_server_ts").and_then(Value::as_i64) else {
            return event;
        };
        let unsigned = members.entry("unsigned").or_insert_with(|| json!({}));
        if let Some(unsigned) = unsigned.as_object_mut() {
            unsigned.insert("age".to_owned(), json!(now.saturating_sub(time)));
            if let Some((sender, transaction)) = &self.origin
                && *sender == format!("{user} {device}")
            {
                unsigned.insert("transaction_id".to_owned(), json!(transaction));
            }
        }
        event
    }
}

impl MatrixState {
    /// Returns the part of a joined room; `None` without news.
    pub(crate) fn joined_part(
        &self,
        call: &SyncCall,
        id: &str,
        room: &Room,
        delivered: &mut BTreeSet<u64>,
    ) -> Option<Value> {
        let since = call.since.unwrap_or_default();
        let is_new = call.since.is_none() || room.membership_at(&call.user, since) != "join";
        let after = if is_new { 0 } else { since };
        let timeline = Timeline::read(call, room, after, self.position);
        let ephemeral = self.ephemeral(call, room, after);
        let account_data = self.account_data_since(call, id);
        let is_quiet = timeline.entries.is_empty() && ephemeral.is_empty();
        if is_quiet && account_data.is_empty() && !is_new && !call.full_state {
            return None;
        }
        delivered.extend(timeline.entries.iter().map(|entry| entry.position));
        let mut events = timeline.entries.iter();
        let has_changed = events.any(|entry| entry.text("type") == "m.room.member");
        // As Synapse does, also with `full_state`.
        let summary = if is_new || has_changed {
            room.summary(&call.user)
        } else {
            json!({})
        };
        Some(json!({
            "timeline": timeline.body(call, self.now()),
            "state": {"events": self.state_before(call, room, &timeline, is_new, after)},
            "ephemeral": {"events": ephemeral},
            "account_data": {"events": account_data},
            "unread_notifications": {"highlight_count": 0, "notification_count": 0},
            "summary": summary,
        }))
    }

    /// Returns the state that the client does not know yet, before the timeline.
    fn state_before(
        &self,
        call: &SyncCall,
        room: &Room,
        timeline: &Timeline<'_>,
        is_new: bool,
        after: u64,
    ) -> Vec<Value> {
        let is_whole = is_new || call.full_state;
        let mut senders: BTreeSet<_> = timeline
            .entries
            .iter()
            .map(|entry| entry.text("sender"))
            .collect();
        senders.insert(call.user.as_str());
        let filter = &call.filter.state;
        let state = room.state_at(timeline.before).into_iter();
        let unknown = state.filter(|((kind, key), entry)| {
            (is_whole || entry.position > after)
                && filter.admits_entry(entry)
                && (!filter.lazy_load_members
                    || kind != "m.room.member"
                    || senders.contains(key.as_str()))
        });
        let now = self.now();
        unknown
            .map(|(_, entry)| entry.shown_to(call, now))
            .collect()
    }

    /// Returns the part of a room that the user has left; `None` if that is not new.
    pub(crate) fn left_part(
        &self,
        call: &SyncCall,
        room: &Room,
        delivered: &mut BTreeSet<u64>,
    ) -> Option<Value> {
        let left = room.member_at(&call.user, u64::MAX)?.position;
        let is_new = match call.since {
            Some(since) => left > since,
            None => call.filter.include_leave,
        };
        if !is_new {
            return None;
        }
        let timeline = Timeline::read(call, room, call.since.unwrap_or_default(), left);
        delivered.extend(timeline.entries.iter().map(|entry| entry.position));
        Some(json!({
            "timeline": timeline.body(call, self.now()), "state": {"events": []},
            "account_data": {"events": []},
        }))
    }

    /// Returns the ephemeral events of a room after a position.
    fn ephemeral(&self, call: &SyncCall, room: &Room, after: u64) -> Vec<Value> {
        let mut events = Vec::new();
        if room.typing_changed > after {
            let typing = self.typing_users(room);
            events.push(json!({"type": "m.typing", "content": {"user_ids": typing}}));
        }
        let mut content = json!({});
        for receipt in &room.receipts {
            let is_visible = receipt.kind == "m.read"
                || receipt.kind == "m.read.private" && receipt.user_id == call.user;
            if receipt.position <= after || !is_visible {
                continue;
            }
            let mut entry = json!({"ts": receipt.time});
            if let Some(thread) = &receipt.thread {
                put(&mut entry, &["thread_id"], thread.clone());
            }
            let place = [&receipt.event_id, &receipt.kind, &receipt.user_id];
            put(&mut content, &place.map(String::as_str), entry);
        }
        if content
            .as_object()
            .is_some_and(|content| !content.is_empty())
        {
            events.push(json!({"type": "m.receipt", "content": content}));
        }
        events.retain(|event| call.filter.ephemeral.admits(event));
        events
    }
}

impl Room {
    /// Returns the part of an invitation; `None` if it is not new.
    pub(crate) fn invited_part(&self, call: &SyncCall) -> Option<Value> {
        let member = self.member_at(&call.user, u64::MAX)?;
        if call.since.is_some_and(|since| member.position <= since) {
            return None;
        }
        let inviter = member.text("sender");
        let state = self.state().into_iter();
        let shown = state.filter(|((kind, key), _)| {
            STRIPPED.contains(&kind.as_str())
                || kind == "m.room.member" && (*key == call.user || key == inviter)
        });
        let stripped = shown.map(|((kind, key), entry)| {
            json!({
                "type": kind, "state_key": key, "sender": entry.text("sender"),
                "content": entry.content(),
            })
        });
        Some(json!({"invite_state": {"events": stripped.collect::<Vec<_>>()}}))
    }

    fn summary(&self, user: &str) -> Value {
        let (joined, invited) = (self.users("join"), self.users("invite"));
        let others = joined.iter().chain(&invited).filter(|other| *other != user);
        json!({
            "m.heroes": others.take(5).collect::<Vec<_>>(),
            "m.joined_member_count": joined.len(), "m.invited_member_count": invited.len(),
        })
    }
}
