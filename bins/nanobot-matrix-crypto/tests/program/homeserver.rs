//! A homeserver in memory: the endpoints of encryption only.

use std::collections::{BTreeMap, BTreeSet};

use nanobot_matrix_crypto::{HomeserverRequest, SyncChanges};
use serde_json::{Map, Value, json};

/// A device of an account.
pub(crate) type Device = (String, String);

#[derive(Default)]
pub(crate) struct Homeserver {
    device_keys: BTreeMap<Device, Value>,
    one_time_keys: BTreeMap<Device, BTreeMap<String, Value>>,
    /// By user: `master_key`, `self_signing_key` and `user_signing_key`.
    identities: BTreeMap<String, Value>,
    inboxes: BTreeMap<Device, Vec<Value>>,
    /// Users whose devices changed since a device asked.
    changed: BTreeMap<Device, BTreeSet<String>>,
    batch: u64,
    events: u64,
}

impl Homeserver {
    /// Handles a request of a device, and returns status and body.
    pub(crate) fn handle(&mut self, from: &Device, request: &HomeserverRequest) -> (u16, Value) {
        let path: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
        let body = &request.body;
        match (request.method.as_str(), &path[3..]) {
            ("POST", ["keys", "upload"]) => self.upload(from, body),
            ("POST", ["keys", "query"]) => self.query(body),
            ("POST", ["keys", "claim"]) => self.claim(body),
            ("PUT", ["sendToDevice", kind, _]) => self.send(from, kind, body),
            ("POST", ["keys", "device_signing", "upload"]) => {
                self.identities.insert(from.0.clone(), body.clone());
                self.note_change(&from.0);
                (200, json!({}))
            }
            ("POST", ["keys", "signatures", "upload"]) => self.sign(body),
            (method, _) => panic!("{method} {}", request.path),
        }
    }

    /// Returns what a device has not received yet.
    pub(crate) fn sync(&mut self, device: &Device) -> SyncChanges {
        self.batch += 1;
        let left = self.one_time_keys.get(device).map_or(0, BTreeMap::len);
        let changed = self.changed.remove(device).unwrap_or_default();
        SyncChanges {
            to_device: self.inboxes.remove(device).unwrap_or_default(),
            device_lists: json!({ "changed": changed, "left": [] }),
            one_time_keys_count: json!({ "signed_curve25519": left }),
            unused_fallback_keys: Some(vec!["signed_curve25519".to_owned()]),
            next_batch: format!("s{}", self.batch),
        }
    }

    /// Returns `true` if nothing waits for a device.
    pub(crate) fn is_idle(&self, device: &Device) -> bool {
        !self.inboxes.contains_key(device) && !self.changed.contains_key(device)
    }

    /// Puts an event into the inbox of a device.
    pub(crate) fn deliver(&mut self, to: &Device, event: Value) {
        self.inboxes.entry(to.clone()).or_default().push(event);
    }

    /// Returns content as an event of a room, as it was sent by `from`.
    pub(crate) fn event(&mut self, from: &Device, room: &str, content: &Value) -> Value {
        self.events += 1;
        json!({
            "type": "m.room.encrypted",
            "sender": from.0,
            "event_id": format!("$event{}", self.events),
            "origin_server_ts": 1_700_000_000_000_u64 + self.events,
            "room_id": room,
            "content": content,
        })
    }

    fn upload(&mut self, from: &Device, body: &Value) -> (u16, Value) {
        if let Some(keys) = body.get("device_keys").filter(|keys| keys.is_object()) {
            assert_eq!(keys["user_id"], from.0.as_str());
            assert_eq!(keys["device_id"], from.1.as_str());
            self.device_keys.insert(from.clone(), keys.clone());
            self.note_change(&from.0);
        }
        let keys = self.one_time_keys.entry(from.clone()).or_default();
        for (id, key) in body["one_time_keys"].as_object().into_iter().flatten() {
            assert!(
                keys.insert(id.clone(), key.clone()).is_none(),
                "{id} is new"
            );
        }
        let counts = json!({ "one_time_key_counts": { "signed_curve25519": keys.len() } });
        (200, counts)
    }

    fn note_change(&mut self, user: &str) {
        for device in self.device_keys.keys() {
            let changed = self.changed.entry(device.clone()).or_default();
            changed.insert(user.to_owned());
        }
    }

    fn query(&self, body: &Value) -> (u16, Value) {
        let mut response = json!({ "device_keys": {}, "failures": {} });
        for user in body["device_keys"].as_object().unwrap().keys() {
            let devices = self
                .device_keys
                .iter()
                .filter(|(device, _)| device.0 == *user);
            let devices: Map<String, Value> = devices
                .map(|(device, keys)| (device.1.clone(), keys.clone()))
                .collect();
            response["device_keys"][user] = devices.into();
            let Some(identity) = self.identities.get(user) else {
                continue;
            };
            for kind in ["master_key", "self_signing_key", "user_signing_key"] {
                response[format!("{kind}s")][user] = identity[kind].clone();
            }
        }
        (200, response)
    }

    fn claim(&mut self, body: &Value) -> (u16, Value) {
        let mut response = json!({ "one_time_keys": {}, "failures": {} });
        for (user, devices) in body["one_time_keys"].as_object().unwrap() {
            for device in devices.as_object().unwrap().keys() {
                let keys = self.one_time_keys.get_mut(&(user.clone(), device.clone()));
                if let Some((id, key)) = keys.and_then(BTreeMap::pop_first) {
                    response["one_time_keys"][user][device][id] = key;
                }
            }
        }
        (200, response)
    }

    fn send(&mut self, from: &Device, kind: &str, body: &Value) -> (u16, Value) {
        for (user, messages) in body["messages"].as_object().unwrap() {
            for (device, content) in messages.as_object().unwrap() {
                let event = json!({ "type": kind, "sender": from.0, "content": content });
                self.deliver(&(user.clone(), device.clone()), event);
            }
        }
        (200, json!({}))
    }

    /// Adds signatures to the keys that they are of.
    fn sign(&mut self, body: &Value) -> (u16, Value) {
        for (user, objects) in body.as_object().unwrap() {
            for (name, object) in objects.as_object().unwrap() {
                let device = (user.clone(), name.clone());
                let signed = match self.device_keys.get_mut(&device) {
                    Some(keys) => keys,
                    None => &mut self.identities.get_mut(user).unwrap()["master_key"],
                };
                for (signer, signatures) in object["signatures"].as_object().unwrap() {
                    for (key, signature) in signatures.as_object().unwrap() {
                        signed["signatures"][signer][key] = signature.clone();
                    }
                }
            }
            self.note_change(user);
        }
        (200, json!({ "failures": {} }))
    }
}
