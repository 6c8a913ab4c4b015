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
