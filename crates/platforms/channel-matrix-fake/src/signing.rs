//! Cross-signing keys and signatures.

use serde_json::{Map, Value, json};

use crate::api::{ApiError, ApiResult, success};
use crate::json::{put, text};
use crate::params::Params;
use crate::state::MatrixState;

const NAMES: [&str; 3] = ["master_key", "self_signing_key", "user_signing_key"];

impl MatrixState {
    /// Stores cross-signing keys. The first ones need no password, later ones do.
    pub(crate) fn upload_signing_keys(&mut self, params: &Params) -> ApiResult {
        let position = self.next_position();
        let given = NAMES
            .into_iter()
            .filter_map(|name| Some((name, params.body.get(name)?)));
        let given: Vec<_> = given.collect();
        for (name, key) in &given {
            let has = |part: &str| key.get(part).is_some_and(|part| !part.is_null());
            if text(key, "user_id") != params.user || !has("keys") || !has("usage") {
                return Err(ApiError::malformed(format!("{name} is invalid")));
            }
        }
        let Some(user) = self.users.get_mut(&params.user) else {
            return Err(ApiError::not_found("User"));
        };
        let is_change = given.iter().any(|(name, key)| {
            let known = user.signing_keys.get(name);
            known.is_some_and(|known| known.get("keys") != key.get("keys"))
        });
        let auth = params.body.get("auth").cloned().unwrap_or_default();
        if is_change && text(&auth, "password") != user.password {
            return Err(needs_password());
        }
        for (name, key) in given {
            user.signing_keys.insert(name, key.clone());
        }
        user.keys_changed = position;
        success(json!({}))
    }

    /// Adds signatures to devices and cross-signing keys, by user and device or key.
    pub(crate) fn upload_signatures(&mut self, params: &Params) -> ApiResult {
        let position = self.next_position();
        for (user, signed) in &params.body {
            let Some(owner) = self.users.get_mut(user) else {
                continue;
            };
            for (id, object) in signed.as_object().into_iter().flatten() {
                let signatures = object.get("signatures").and_then(Value::as_object);
                let device = owner.devices.get_mut(id);
                let device = device.and_then(|device| device.keys.as_mut());
                let mut keys = owner.signing_keys.values_mut();
                let target = device.or_else(|| keys.find(|key| is_key(key, id)));
                if let (Some(target), Some(signatures)) = (target, signatures) {
                    add_signatures(target, signatures);
                }
            }
            owner.keys_changed = position;
        }
        success(json!({"failures": {}}))
    }

    /// Answers that there is no backup of keys.
    pub(crate) fn key_backup(&mut self, _: &Params) -> ApiResult {
        Err(ApiError::not_found("Backup"))
    }
}

/// Returns the refusal of a call that needs the password, too.
fn needs_password() -> ApiError {
    let mut error = ApiError::new(401, "", "");
    error.extra = json!({
        "flows": [{"stages": ["m.login.password"]}], "params": {}, "session": "TESTsession",
    });
    error
}

fn is_key(key: &Value, id: &str) -> bool {
    let keys = key.get("keys").and_then(Value::as_object);
    let mut keys = keys.into_iter().flatten();
    keys.any(|(_, key)| key.as_str() == Some(id))
}

fn add_signatures(target: &mut Value, signatures: &Map<String, Value>) {
    for (signer, added) in signatures {
        for (key, signature) in added.as_object().into_iter().flatten() {
            put(target, &["signatures", signer, key], signature.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{BOT_ID, BOT_PASSWORD};
    use crate::probe::Probe;

    fn keys(key: &str) -> Value {
        let keys = json!({format!("ed25519:{key}"): key});
        json!({"master_key": {"user_id": BOT_ID, "usage": ["master"], "keys": keys}})
    }

    #[test]
    fn new_cross_signing_keys_need_the_password() {
        let mut probe = Probe::new();
        let path = "keys/device_signing/upload";
        probe.call("POST", path, &keys("a"));
        probe.call("POST", path, &keys("a"));
        let (status, body) = probe.request("POST", path, &keys("b"));
        assert_eq!((status, &body["session"]), (401, &json!("TESTsession")));
        let mut with_password = keys("b");
        with_password["auth"] = json!({"type": "m.login.password", "password": BOT_PASSWORD});
        probe.call("POST", path, &with_password);
        let signatures = json!({BOT_ID: {"b": {"signatures": {BOT_ID: {"ed25519:X": "s"}}}}});
        probe.call("POST", "keys/signatures/upload", &signatures);
        let found = probe.call("POST", "keys/query", &json!({"device_keys": {BOT_ID: []}}));
        let master = &found["master_keys"][BOT_ID];
        assert_eq!(master["keys"], json!({"ed25519:b": "b"}));
        assert_eq!(master["signatures"], json!({BOT_ID: {"ed25519:X": "s"}}));
        assert_eq!(probe.complaints(), Vec::<String>::new());
        let odd = json!({"master_key": {"user_id": "@x:fake.test"}});
        assert_eq!(probe.code("POST", path, &odd), "M_INVALID_PARAM");
    }
}
