//! Syncs: long polls for what is new in the view of a user.

use std::collections::BTreeSet;
use std::time::Duration;

use nanobot_testkit::Watched;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::account::BOT_ID;
use crate::api::{ApiError, ApiResult, Outcome};
use crate::filter::Filter;
use crate::json::member;
use crate::params::Params;
use crate::state::MatrixState;

/// Longest time that a sync waits.
const LONGEST: u64 = 10 * 60 * 1000;

/// A sync.
#[derive(Clone, Debug)]
pub(crate) struct SyncCall {
    pub(crate) user: String,
    pub(crate) device: String,
    pub(crate) since: Option<u64>,
    pub(crate) filter: Filter,
    pub(crate) full_state: bool,
    pub(crate) timeout: Duration,
    /// Number of times that waiting syncs had been ended when it began.
    pub(crate) ended: u64,
}

/// Counts a sync of the bot for as long as it waits, also if its client leaves.
struct Waiting<'a>(&'a Watched<MatrixState>, usize);

impl<'a> Waiting<'a> {
    fn begin(state: &'a Watched<MatrixState>, call: &SyncCall) -> Self {
        let count = usize::from(call.user == BOT_ID);
        state.change(|state| state.waiting_syncs += count);
        Self(state, count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.waiting_syncs -= self.1);
    }
}

/// Waits until there is something new, or the time is over.
pub(crate) async fn wait(state: &Watched<MatrixState>, call: &SyncCall) -> Result<Value, ApiError> {
    let deadline = Instant::now() + call.timeout;
    let mut changed = state.subscribe();
    let is_due = |is_over| state.read(|state| state.is_sync_due(call, is_over));
    if !is_due(call.timeout.is_zero())? {
        let _waiting = Waiting::begin(state, call);
        while !is_due(deadline <= Instant::now())? {
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
    Ok(state.change(|state| state.sync(call)))
}

/// Reads a position in the stream.
pub(crate) fn position(token: &str) -> Result<u64, ApiError> {
    let number = token
        .strip_prefix('s')
        .and_then(|number| number.parse().ok());
    number.ok_or_else(|| ApiError::malformed(format!("{token} is no position")))
}

/// Returns the token of a position in the stream.
pub(crate) fn batch(position: u64) -> String {
    format!("s{position}")
}

impl MatrixState {
    pub(crate) fn begin_sync(&mut self, params: &Params) -> ApiResult {
        let since = params.queried("since").map(position).transpose()?;
        if since.is_some_and(|since| since > self.position) {
            return Err(ApiError::malformed("since is of another homeserver"));
        }
        let timeout = params.number("timeout").unwrap_or_default();
        let call = SyncCall {
            user: params.user.clone(),
            device: params.device.clone(),
            since,
            filter: self.sync_filter(params)?,
            full_state: params.queried("full_state") == Some("true"),
            timeout: Duration::from_millis(timeout.min(LONGEST)),
            ended: self.ended_syncs,
        };
        self.confirm(&call);
        Ok(Outcome::Sync(Box::new(call)))
    }

    /// Forgets what the client has.
    fn confirm(&mut self, call: &SyncCall) {
        let Some(since) = call.since else {
            return;
        };
        if let Some(user) = self.users.get_mut(&call.user) {
            user.confirmed = user.confirmed.max(since);
            if let Some(device) = user.devices.get_mut(&call.device) {
                device.inbox.retain(|position, _| *position > since);
            }
        }
    }

    /// Returns `true` if it is time for the response of a sync.
    fn is_sync_due(&self, call: &SyncCall, is_over: bool) -> Result<bool, ApiError> {
        self.check_device(&call.user, &call.device)?;
        if is_over || call.since.is_none() || call.full_state || self.ended_syncs > call.ended {
            return Ok(true);
        }
        let body = self.sync_body(call).0;
        let is_empty = |value: &Value| match value {
            Value::Object(object) => object.values().all(|part| match part {
                Value::Object(part) => part.is_empty(),
                Value::Array(part) => part.is_empty(),
                _ => true,
            }),
            _ => true,
        };
        let parts = ["rooms", "to_device", "account_data", "device_lists"];
        Ok(!parts.iter().all(|part| is_empty(&member(&body, part))))
    }

    /// Returns the response of a sync, and counts the deliveries.
    fn sync(&mut self, call: &SyncCall) -> Value {
        let (body, delivered) = self.sync_body(call);
        if call.user == BOT_ID {
            let entries = self.rooms.values_mut().flat_map(|room| &mut room.entries);
            for entry in entries.filter(|entry| delivered.contains(&entry.position)) {
                entry.deliveries += 1;
            }
        }
        body
    }

    /// Returns the response of a sync, and the positions of the events in it.
    fn sync_body(&self, call: &SyncCall) -> (Value, BTreeSet<u64>) {
        let mut delivered = BTreeSet::new();
        let mut rooms = [(); 3].map(|()| Map::new());
        let [join, invite, leave] = &mut rooms;
        for (id, room) in &self.rooms {
            if !call.filter.admits_room(id) {
                continue;
            }
            let body = match room.membership(&call.user).as_str() {
                "join" => self
                    .joined_part(call, id, room, &mut delivered)
                    .map(|part| (&mut *join, part)),
                "invite" => room.invited_part(call).map(|part| (&mut *invite, part)),
                _ => self
                    .left_part(call, room, &mut delivered)
                    .map(|part| (&mut *leave, part)),
            };
            if let Some((rooms, part)) = body {
                rooms.insert(id.clone(), part);
            }
        }
        let device = self.device(&call.user, &call.device);
        let to_device = device.into_iter().flat_map(|device| device.inbox.values());
        let [join, invite, leave] = rooms;
        let body = json!({
            "next_batch": batch(self.position),
            "rooms": {"join": join, "invite": invite, "leave": leave, "knock": {}},
            "presence": {"events": []},
            "account_data": {"events": self.account_data_since(call, "")},
            "to_device": {"events": to_device.collect::<Vec<_>>()},
            "device_lists": self.device_lists(call),
            "device_one_time_keys_count": self.key_counts(&call.user, &call.device),
            "device_unused_fallback_key_types": self.unused_fallbacks(&call.user, &call.device),
        });
        (body, delivered)
    }

    /// Returns the account data that changed since the last sync.
    pub(crate) fn account_data_since(&self, call: &SyncCall, room: &str) -> Vec<Value> {
        let user = self.users.get(&call.user).into_iter();
        let data = user.flat_map(|user| &user.account_data);
        let new = data.filter(|((place, _), (position, _))| {
            place == room && *position > call.since.unwrap_or_default()
        });
        let events = new.map(|((_, kind), (_, content))| json!({"type": kind, "content": content}));
        events
            .filter(|event| call.filter.account_data.admits(event))
            .collect()
    }
}
