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
    pub(crate) fn sync(&mut self, call: &SyncCall) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::BOT_DEVICE;
    use crate::fake::MatrixFake;
    use crate::incoming::Incoming;
    use crate::probe::{Probe, ROOM, ann, bodies, text};

    fn next(sync: &Value) -> String {
        sync["next_batch"].as_str().unwrap().to_owned()
    }

    #[test]
    fn sync_returns_what_is_new() {
        let mut probe = Probe::new();
        let first = probe.sync("", "");
        let room = &first["rooms"]["join"][ROOM];
        let states = room["state"]["events"].as_array().unwrap().len();
        let events = room["timeline"]["events"].as_array().unwrap().len();
        // The state before the timeline, and the timeline, are disjoint.
        assert_eq!(
            (states, events, &room["timeline"]["limited"]),
            (0, 7, &json!(false))
        );
        assert_eq!(room["summary"]["m.joined_member_count"], json!(2));
        let hello = probe.state.push(Incoming::to(ROOM, &ann(), "hello"));
        let second = probe.sync(&next(&first), "");
        assert_eq!(bodies(&second, ROOM), ["hello"]);
        let room = &second["rooms"]["join"][ROOM];
        assert_eq!(
            (&room["state"]["events"], &room["summary"]),
            (&json!([]), &json!({}))
        );
        let acknowledged = probe.state.is_acknowledged(&hello);
        assert_eq!((probe.state.deliveries(&hello), acknowledged), (1, false));
        let third = probe.sync(&next(&second), "");
        assert_eq!(third["rooms"]["join"], json!({}));
        assert!(probe.state.is_acknowledged(&hello));
        probe.state.repeat(&hello);
        assert!(!probe.state.is_acknowledged(&hello));
        assert_eq!(bodies(&probe.sync(&next(&third), ""), ROOM), ["hello"]);
        assert_eq!(probe.state.deliveries(&hello), 2);
    }

    #[test]
    fn long_timelines_are_limited_and_the_state_before_is_whole() {
        let mut probe = Probe::new();
        let since = next(&probe.sync("", ""));
        probe
            .state
            .set_room_state(ROOM, "m.room.topic", "", json!({"topic": "x"}));
        for number in 0..12 {
            probe
                .state
                .push(Incoming::to(ROOM, &ann(), &number.to_string()));
        }
        let sync = probe.sync(&since, "");
        let room = &sync["rooms"]["join"][ROOM];
        assert_eq!(room["timeline"]["limited"], json!(true));
        assert_eq!(bodies(&sync, ROOM).first().map(String::as_str), Some("2"));
        assert_eq!(room["state"]["events"][0]["type"], json!("m.room.topic"));
        let before = room["timeline"]["prev_batch"].as_str().unwrap();
        let page = probe.get(&format!(
            "rooms/{ROOM}/messages?dir=b&from={before}&to={since}"
        ));
        let bodies: Vec<_> = page["chunk"].as_array().unwrap().iter().collect();
        assert_eq!(bodies[0]["content"]["body"], json!("1"));
        assert_eq!((bodies.len(), page.get("end")), (3, None));
    }

    #[test]
    fn invitations_and_departures_are_shown_once() {
        let mut probe = Probe::new();
        let since = next(&probe.sync("", ""));
        probe.state.add_room("!b:fake.test", &[ann()]);
        probe.state.set_direct("!b:fake.test");
        let user = ann().user_id;
        probe
            .state
            .set_membership("!b:fake.test", &user, BOT_ID, "invite");
        let sync = probe.sync(&since, "");
        let state = &sync["rooms"]["invite"]["!b:fake.test"]["invite_state"]["events"];
        let own = state
            .as_array()
            .unwrap()
            .iter()
            .find(|event| event["state_key"] == BOT_ID);
        assert_eq!(own.unwrap()["content"]["is_direct"], json!(true));
        assert_eq!(probe.sync(&next(&sync), "")["rooms"]["invite"], json!({}));
        probe.state.set_membership(ROOM, &user, BOT_ID, "leave");
        let sync = probe.sync(&next(&sync), "");
        assert_eq!(sync["rooms"]["leave"].as_object().unwrap().len(), 1);
        assert_eq!(sync["rooms"]["join"], json!({}));
        let again = probe.sync(&next(&sync), "");
        assert_eq!(again["rooms"]["leave"], json!({}));
        // Newly joined rooms come with their history and state.
        probe.call("POST", "rooms/!b:fake.test/join", &json!({}));
        let sync = probe.sync(&next(&again), "");
        let room = &sync["rooms"]["join"]["!b:fake.test"];
        assert_eq!(room["timeline"]["events"].as_array().unwrap().len(), 8);
    }

    #[test]
    fn to_device_events_stay_until_the_next_sync_confirms_them() {
        let mut probe = Probe::new();
        let since = next(&probe.sync("", ""));
        let body = json!({"messages": {BOT_ID: {"*": {"x": 1}}}});
        let mut people = Probe {
            token: crate::probe::ANN_TOKEN.to_owned(),
            ..probe
        };
        for _ in 0..2 {
            people.call("PUT", "sendToDevice/m.odd/tx", &body);
        }
        probe = Probe {
            token: crate::account::BOT_TOKEN.to_owned(),
            ..people
        };
        let expected = json!([{"type": "m.odd", "sender": ann().user_id, "content": {"x": 1}}]);
        let mut sync = Value::Null;
        for _ in 0..2 {
            sync = probe.sync(&since, "");
            assert_eq!(sync["to_device"]["events"], expected);
        }
        assert_eq!(
            probe.sync(&next(&sync), "")["to_device"]["events"],
            json!([])
        );
        let device = probe.state.device(BOT_ID, BOT_DEVICE).unwrap();
        assert!(device.inbox.is_empty());
    }

    #[test]
    fn device_gets_back_its_transaction_ids() {
        let mut probe = Probe::new();
        let since = next(&probe.sync("", ""));
        probe.send("m.room.message", "tx1", &text("x"));
        let sync = probe.sync(&since, "");
        let event = &sync["rooms"]["join"][ROOM]["timeline"]["events"][0];
        assert_eq!(event["unsigned"]["transaction_id"], json!("tx1"));
        let page = format!("rooms/{ROOM}/messages?dir=b&limit=1");
        let event = &probe.get(&page)["chunk"][0];
        assert_eq!(event["unsigned"]["transaction_id"], json!("tx1"));
        let mut people = probe.by_ann();
        let event = &people.sync(&since, "")["rooms"]["join"][ROOM]["timeline"]["events"][0];
        assert_eq!(event["unsigned"].get("transaction_id"), None);
        let event = &people.get(&page)["chunk"][0];
        assert_eq!(event["unsigned"].get("transaction_id"), None);
    }

    #[tokio::test]
    async fn sync_waits_for_news() {
        let fake = MatrixFake::start().await.unwrap();
        fake.add_person(&ann());
        let call = fake.state.change(|state| {
            let mut probe = Probe::new();
            std::mem::swap(&mut probe.state, state);
            let since = next(&probe.sync("", ""));
            let call = probe.begin_sync(&since);
            std::mem::swap(&mut probe.state, state);
            call
        });
        let push = async {
            fake.wait_for_waiting_syncs(1).await.unwrap();
            fake.says(&ann(), "hello")
        };
        let (sync, pushed) = tokio::join!(wait(&fake.state, &call), push);
        assert_eq!(bodies(&sync.unwrap(), &ann().direct()), ["hello"]);
        assert_eq!((fake.deliveries(&pushed), fake.waiting_syncs()), (1, 0));
        let ends: [fn(&MatrixFake); 3] = [
            MatrixFake::end_syncs,
            MatrixFake::revoke_credentials,
            MatrixFake::expire_tokens,
        ];
        for (number, end) in ends.into_iter().enumerate() {
            let call = SyncCall {
                since: Some(fake.state.read(|state| state.position)),
                ended: fake.state.read(|state| state.ended_syncs),
                ..call.clone()
            };
            let later = async {
                fake.wait_for_waiting_syncs(1).await.unwrap();
                end(&fake);
            };
            let (sync, ()) = tokio::join!(wait(&fake.state, &call), later);
            assert_eq!(sync.is_ok(), number == 0, "{sync:?}");
            fake.restore_credentials();
        }
    }
}
