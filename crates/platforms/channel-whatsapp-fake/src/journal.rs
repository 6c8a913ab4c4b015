//! The journal: messages wait on disk until the client confirms them.

use std::collections::BTreeMap;

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::api::ApiResult;
use crate::connection::Out;
use crate::params::Params;
use crate::state::WhatsAppState;

/// Number of unconfirmed messages that are sent ahead.
const AHEAD: usize = 64;
/// Largest number of messages in the journal.
const COUNT_LIMIT: usize = 10_000;
/// Largest size of the journal in bytes.
const SIZE_LIMIT: usize = 64 << 20;

/// A message for the client.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Id of the message.
    pub(crate) id: String,
    /// The frame; its size counts.
    pub(crate) frame: Value,
    size: usize,
    /// Number of frames written.
    pub(crate) deliveries: usize,
    /// Number of messages that were dropped before it.
    lost: u64,
    /// Time of the confirmation, in milliseconds of the fake's clock.
    pub(crate) confirmed: Option<i64>,
    is_dropped: bool,
}

impl Entry {
    /// Returns `true` if the message is in the journal.
    fn is_kept(&self) -> bool {
        self.confirmed.is_none() && !self.is_dropped
    }
}

/// Messages by `seq`, also those that left the journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) entries: BTreeMap<u64, Entry>,
    pub(crate) count_limit: usize,
    pub(crate) size_limit: usize,
    /// Number of dropped messages that no client knows of.
    lost: u64,
    last: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            count_limit: COUNT_LIMIT,
            size_limit: SIZE_LIMIT,
            lost: 0,
            last: 0,
        }
    }
}

impl Journal {
    /// Returns the `seq` of the next message.
    pub(crate) fn next_seq(&self) -> u64 {
        self.last + 1
    }

    /// Adds a message, and drops the oldest ones beyond the limits.
    pub(crate) fn add(&mut self, id: &str, mut frame: Value) -> u64 {
        self.last += 1;
        if frame.get("seq").is_none() {
            set(&mut frame, "seq", self.last);
        }
        let entry = Entry {
            id: id.to_owned(),
            size: frame.to_string().len(),
            frame,
            deliveries: 0,
            lost: 0,
            confirmed: None,
            is_dropped: false,
        };
        self.entries.insert(self.last, entry);
        let kept = self.entries.values().filter(|entry| entry.is_kept());
        let (mut count, mut size) = kept.fold((0, 0), |(count, size), entry| {
            (count + 1, size + entry.size)
        });
        for entry in self.entries.values_mut().filter(|entry| entry.is_kept()) {
            if count <= self.count_limit && size <= self.size_limit {
                break;
            }
            entry.is_dropped = true;
            (count, size) = (count - 1, size - entry.size);
            self.lost += 1;
        }
        self.last
    }

    /// Returns the frame of a message, which is written now; `None` if it left the journal.
    fn deliver(&mut self, seq: u64) -> Option<String> {
        let entry = self.entries.get_mut(&seq)?;
        if !entry.is_kept() {
            return None;
        }
        entry.deliveries += 1;
        // A repeated frame has the number, too: the client may not have seen the first one.
        entry.lost += std::mem::take(&mut self.lost);
        let mut frame = entry.frame.clone();
        if entry.lost > 0 {
            set(&mut frame, "lost", entry.lost);
        }
        Some(frame.to_string())
    }

    /// Returns the entries of a message; a repeated one has several.
    pub(crate) fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.values().filter(move |entry| entry.id == id)
    }
}

impl WhatsAppState {
    /// Sends messages to the client of version 2, at most 64 ahead.
    pub(crate) fn dispatch(&mut self) {
        let Some(client) = self.connections.values_mut().find(|open| open.is_client()) else {
            return;
        };
        let entries = &self.journal.entries;
        let is_kept = |seq: &u64| entries.get(seq).is_some_and(Entry::is_kept);
        client.offered.retain(is_kept);
        let kept = entries.iter().filter(|(_, entry)| entry.is_kept());
        for (seq, _) in kept.take(AHEAD) {
            if client.offered.len() < AHEAD && client.offered.insert(*seq) {
                client.outbox.push_back(Out::Message(*seq));
            }
        }
    }

    /// Returns the frame of a message that is written now.
    pub(crate) fn deliver(&mut self, seq: u64) -> Option<String> {
        self.journal.deliver(seq)
    }

    /// Confirms messages.
    pub(crate) fn acknowledge(&mut self, params: Params<'_>) -> ApiResult {
        let now = self.now();
        for seq in params.list("seq") {
            let Some(seq) = seq.as_u64() else {
                return Err(ApiError::invalid("the type of seq"));
            };
            match self.journal.entries.get_mut(&seq) {
                Some(entry) if entry.deliveries > 0 => {
                    entry.confirmed.get_or_insert(now);
                }
                _ => self.complain(format!("ack: no message with seq {seq} was sent")),
            }
        }
        Ok(Value::Null)
    }

    /// Adds a message to the journal again with a new `seq`, as after a repetition by WhatsApp.
    pub(crate) fn repeat(&mut self, id: &str) {
        let Some(entry) = self.journal.of(id).last() else {
            return;
        };
        let mut frame = entry.frame.clone();
        if let Some(members) = frame.as_object_mut() {
            members.remove("seq");
        }
        self.journal.add(id, frame);
        self.dispatch();
    }

    /// Adds any members as a message. `type` and `seq` are added if they are missing.
    pub(crate) fn push_payload(&mut self, body: &Value) -> String {
        let mut frame = json!({"type": "message"});
        for (name, value) in body.as_object().into_iter().flatten() {
            set(&mut frame, name, value.clone());
        }
        let id = frame.get("id").and_then(Value::as_str).unwrap_or_default();
        let id = id.to_owned();
        self.journal.add(&id, frame);
        self.dispatch();
        id
    }
}
