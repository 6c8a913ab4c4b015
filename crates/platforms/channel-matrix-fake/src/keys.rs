//! Keys of devices: identity keys, one-time keys and fallback keys.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::api::{ApiError, ApiResult, success};
use crate::json::{put, text};
use crate::model::Device;
use crate::params::Params;
use crate::state::MatrixState;
use crate::sync::{SyncCall, position};

impl MatrixState {
    pub(crate) fn upload_keys(&mut self, params: &Params) -> ApiResult {
        if let Some(keys) = params.body.get("device_keys") {
            check_device_keys(keys, params)?;
        }
        let position = self.next_position();
        let Some(user) = self.users.get_mut(&params.user) else {
            return Err(ApiError::not_found("User"));
        };
        let Some(device) = user.devices.get_mut(&params.device) else {
            return Err(ApiError::not_found("Device"));
        };
        let one_time_keys = params.object("one_time_keys");
        for (id, key) in &one_time_keys {
            check_key(id, key)?;
            if device.known_keys.get(id).is_some_and(|known| known != key) {
                return Err(ApiError::malformed(format!(
                    "One time key {id} already exists"
                )));
            }
        }
        for (id, key) in one_time_keys {
            if device.known_keys.insert(id.clone(), key.clone()).is_none() {
                device.one_time_keys.push((id, key));
            }
        }
        for (id, key) in params.object("fallback_keys") {
            check_key(&id, &key)?;
            let algorithm = id.split(':').next().unwrap_or_default().to_owned();
            device.fallback_keys.insert(algorithm, (id, key, false));
        }
        if let Some(keys) = params.body.get("device_keys")
            && device.keys.as_ref() != Some(keys)
        {
            device.keys = Some(keys.clone());
            user.keys_changed = position;
        }
        let counts = self.key_counts(&params.user, &params.device);
        success(json!({"one_time_key_counts": counts}))
    }

    pub(crate) fn query_keys(&mut self, params: &Params) -> ApiResult {
        let mut found = Map::new();
        let mut signing =
            ["master_key", "self_signing_key", "user_signing_key"].map(|name| (name, Map::new()));
        for (id, wanted) in params.object("device_keys") {
            let Some(wanted) = wanted.as_array() else {
                return Err(ApiError::malformed("device_keys is invalid"));
            };
            let Some(user) = self.users.get(&id) else {
                continue;
            };
            let devices = user.devices.iter().filter(|(device, _)| {
                wanted.is_empty() || wanted.iter().any(|name| name == device.as_str())
            });
            let shown = devices.filter_map(|(device, data)| Some((device.clone(), data.shown()?)));
            found.insert(id.clone(), Value::Object(shown.collect()));
            for (name, keys) in &mut signing {
                let is_visible = *name != "user_signing_key" || id == params.user;
                if let Some(key) = user.signing_keys.get(name).filter(|_| is_visible) {
                    keys.insert(id.clone(), key.clone());
                }
            }
        }
        let mut body = json!({"device_keys": found, "failures": {}});
        for (name, keys) in signing {
            put(&mut body, &[&format!("{name}s")], keys);
        }
        success(body)
    }

    /// Claims one key of each device. A one-time key is given out once; a fallback key stays.
    pub(crate) fn claim_keys(&mut self, params: &Params) -> ApiResult {
        let mut claimed = json!({});
        for (user, devices) in params.object("one_time_keys") {
            let Some(devices) = devices.as_object() else {
                return Err(ApiError::malformed("one_time_keys is invalid"));
            };
            for (id, algorithm) in devices {
                let algorithm = algorithm.as_str().unwrap_or_default();
                let device = self.device_mut(&user, id);
                if let Some((key, value)) = device.and_then(|device| device.claim(algorithm)) {
                    put(&mut claimed, &[&user, id, &key], value);
                }
            }
        }
        success(json!({"one_time_keys": claimed, "failures": {}}))
    }

    pub(crate) fn changed_keys(&mut self, params: &Params) -> ApiResult {
        let bound = |key| position(params.queried(key).unwrap_or_default());
        let (from, to) = (bound("from")?, bound("to")?);
        success(self.changes_between(&params.user, from, to))
    }

    /// Returns the users whose devices changed since the last sync.
    pub(crate) fn device_lists(&self, call: &SyncCall) -> Value {
        match call.since {
            Some(since) => self.changes_between(&call.user, since, self.position),
            None => json!({"changed": [], "left": []}),
        }
    }

    fn changes_between(&self, user: &str, from: u64, to: u64) -> Value {
        let (before, now) = (self.companions(user, from), self.companions(user, to));
        let changed = now.iter().filter(|other| {
            let known = self.users.get(*other).map(|other| other.keys_changed);
            let is_new = !before.contains(*other);
            is_new || known.is_some_and(|position| from < position && position <= to)
        });
        let left = before.iter().filter(|other| !now.contains(*other));
        json!({"changed": changed.collect::<Vec<_>>(), "left": left.collect::<Vec<_>>()})
    }

    /// Returns the users with whom a user shares a room after a position, and the user.
    fn companions(&self, user: &str, position: u64) -> BTreeSet<String> {
        let mut found = BTreeSet::from([user.to_owned()]);
        for room in self.rooms.values() {
            if room.membership_at(user, position) != "join" {
                continue;
            }
            let state = room.state_at(position).into_iter();
            let joined = state.filter(|((kind, _), entry)| {
                let content = entry.content();
                let membership = content.get("membership").and_then(Value::as_str);
                kind == "m.room.member" && membership == Some("join")
            });
            found.extend(joined.map(|((_, user), _)| user));
        }
        found
    }

    /// Returns the numbers of unclaimed one-time keys by algorithm.
    pub(crate) fn key_counts(&self, user: &str, device: &str) -> Value {
        let mut counts = json!({"signed_curve25519": 0});
        let device = self.device(user, device).into_iter();
        for (id, _) in device.flat_map(|device| &device.one_time_keys) {
            let algorithm = id.split(':').next().unwrap_or_default();
            let count = counts.get(algorithm).and_then(Value::as_u64);
            put(&mut counts, &[algorithm], count.unwrap_or_default() + 1);
        }
        counts
    }

    /// Returns the algorithms whose fallback key was not used yet.
    pub(crate) fn unused_fallbacks(&self, user: &str, device: &str) -> Vec<String> {
        let device = self.device(user, device).into_iter();
        let keys = device.flat_map(|device| &device.fallback_keys);
        let unused = keys.filter(|(_, (_, _, is_used))| !is_used);
        unused.map(|(algorithm, _)| algorithm.clone()).collect()
    }
}

impl Device {
    /// Returns the identity keys as others see them.
    fn shown(&self) -> Option<Value> {
        let mut keys = self.keys.clone()?;
        if let Some(name) = &self.display_name {
            put(
                &mut keys,
                &["unsigned", "device_display_name"],
                name.clone(),
            );
        }
        Some(keys)
    }

    fn claim(&mut self, algorithm: &str) -> Option<(String, Value)> {
        let is_of = |(id, _): &(String, Value)| id.split(':').next() == Some(algorithm);
        if let Some(place) = self.one_time_keys.iter().position(is_of) {
            return Some(self.one_time_keys.remove(place));
        }
        let (id, key, is_used) = self.fallback_keys.get_mut(algorithm)?;
        *is_used = true;
        Some((id.clone(), key.clone()))
    }
}

fn check_device_keys(keys: &Value, params: &Params) -> Result<(), ApiError> {
    let is_own = text(keys, "user_id") == params.user && text(keys, "device_id") == params.device;
    let has = |key: &str| keys.get(key).is_some_and(Value::is_object);
    let is_whole = keys.get("algorithms").is_some_and(Value::is_array);
    if is_own && is_whole && has("keys") && has("signatures") {
        return Ok(());
    }
    Err(ApiError::malformed("device_keys is invalid"))
}

fn check_key(id: &str, key: &Value) -> Result<(), ApiError> {
    let is_signed = key.get("signatures").is_some_and(Value::is_object);
    let is_whole = is_signed && !text(key, "key").is_empty();
    match id.split_once(':') {
        Some(("signed_curve25519", name)) if !name.is_empty() && is_whole => Ok(()),
        _ => Err(ApiError::malformed(format!("the key {id} is invalid"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{BOT_DEVICE, BOT_ID};
    use crate::probe::{ANN_TOKEN, Probe, ann};

    fn key(name: &str) -> Value {
        json!({"key": name, "signatures": {BOT_ID: {"ed25519:X": "s"}}})
    }

    fn device_keys() -> Value {
        json!({
            "user_id": BOT_ID, "device_id": BOT_DEVICE, "algorithms": [],
            "keys": {"ed25519:NANOBOTDEV": "k"}, "signatures": {},
        })
    }

    /// A probe whose bot has keys, and whose next calls are Ann's.
    fn probe() -> Probe {
        let mut probe = Probe::new();
        let body = json!({
            "device_keys": device_keys(),
            "one_time_keys": {"signed_curve25519:B": key("b"), "signed_curve25519:A": key("a")},
            "fallback_keys": {"signed_curve25519:F": key("f")},
        });
        let answer = probe.call("POST", "keys/upload", &body);
        assert_eq!(
            answer["one_time_key_counts"],
            json!({"signed_curve25519": 2})
        );
        let sync = probe.sync("", "");
        assert_eq!(
            sync["device_one_time_keys_count"],
            json!({"signed_curve25519": 2})
        );
        assert_eq!(
            sync["device_unused_fallback_key_types"],
            json!(["signed_curve25519"])
        );
        ANN_TOKEN.clone_into(&mut probe.token);
        probe
    }

    #[test]
    fn one_time_keys_are_claimed_once_and_the_fallback_key_stays() {
        let mut probe = probe();
        let body = json!({"one_time_keys": {BOT_ID: {BOT_DEVICE: "signed_curve25519"}}});
        let mut claimed = Vec::new();
        for _ in 0..4 {
            let answer = probe.call("POST", "keys/claim", &body);
            let keys = answer["one_time_keys"][BOT_ID][BOT_DEVICE]
                .as_object()
                .unwrap()
                .clone();
            claimed.extend(keys.keys().cloned());
        }
        let names = claimed
            .iter()
            .map(|id| id.replace("signed_curve25519:", ""));
        assert_eq!(names.collect::<Vec<_>>(), ["A", "B", "F", "F"]);
        assert_eq!(
            probe.state.unused_fallbacks(BOT_ID, BOT_DEVICE),
            Vec::<String>::new()
        );
        assert_eq!(
            probe.state.key_counts(BOT_ID, BOT_DEVICE),
            json!({"signed_curve25519": 0})
        );
    }

    #[test]
    fn devices_are_found_and_their_changes_are_announced() {
        let mut probe = probe();
        let body = json!({"device_keys": {BOT_ID: [], "@nobody:fake.test": []}});
        let found = probe.call("POST", "keys/query", &body);
        assert_eq!(
            found["device_keys"],
            json!({BOT_ID: {BOT_DEVICE: device_keys()}})
        );
        let since = probe.sync("", "")["next_batch"]
            .as_str()
            .unwrap()
            .to_owned();
        let lists = |probe: &mut Probe| probe.sync(&since, "")["device_lists"].clone();
        assert_eq!(lists(&mut probe), json!({"changed": [], "left": []}));
        probe.state.add_device(BOT_ID, "OTHER", "other");
        assert_eq!(lists(&mut probe), json!({"changed": [BOT_ID], "left": []}));
        let now = format!("s{}", probe.state.position);
        let changes = probe.get(&format!("keys/changes?from={since}&to={now}"));
        assert_eq!(changes, json!({"changed": [BOT_ID], "left": []}));
        for room in [crate::probe::ROOM.to_owned(), ann().direct()] {
            probe.state.set_membership(&room, BOT_ID, BOT_ID, "leave");
        }
        assert_eq!(lists(&mut probe), json!({"changed": [], "left": [BOT_ID]}));
    }

    #[test]
    fn wrong_keys_are_refused_and_recorded() {
        let mut probe = Probe::new();
        let mut foreign = device_keys();
        foreign["user_id"] = json!(ann().user_id);
        let again = json!({"signed_curve25519:A": key("a")});
        probe.call("POST", "keys/upload", &json!({"one_time_keys": again}));
        probe.call("POST", "keys/upload", &json!({"one_time_keys": again}));
        let table = [
            json!({"device_keys": foreign}),
            json!({"one_time_keys": {"signed_curve25519:A": key("another")}}),
            json!({"one_time_keys": {"curve25519:A": key("a")}}),
            json!({"fallback_keys": {"signed_curve25519:A": "a"}}),
        ];
        for body in table {
            assert_eq!(
                probe.code("POST", "keys/upload", &body),
                "M_INVALID_PARAM",
                "{body}"
            );
            assert_eq!(probe.complaints().len(), 1, "{body}");
        }
    }
}
