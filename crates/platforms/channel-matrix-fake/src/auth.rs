//! Versions, logins and tokens.

use serde_json::{Value, json};

use crate::account::{BOT_ID, SERVER_NAME};
use crate::api::{ApiError, ApiResult, nothing, success};
use crate::json::text;
use crate::model::Device;
use crate::params::Params;
use crate::state::MatrixState;

impl MatrixState {
    pub(crate) fn announced_versions(&mut self, _: &Params) -> ApiResult {
        success(json!({"versions": self.versions, "unstable_features": {}}))
    }

    pub(crate) fn well_known(&mut self, _: &Params) -> ApiResult {
        success(json!({"m.homeserver": {"base_url": self.base}}))
    }

    pub(crate) fn login_flows(&mut self, _: &Params) -> ApiResult {
        success(json!({"flows": [{"type": "m.login.password"}]}))
    }

    pub(crate) fn log_in(&mut self, params: &Params) -> ApiResult {
        if params.text("type") != Some("m.login.password") {
            return Err(ApiError::new(400, "M_UNKNOWN", "Unknown login type").clumsy());
        }
        let identifier = Value::Object(params.object("identifier"));
        if text(&identifier, "type") != "m.id.user" {
            return Err(ApiError::malformed("identifier is invalid"));
        }
        let name = text(&identifier, "user");
        let user = if name.starts_with('@') {
            name.to_owned()
        } else {
            format!("@{name}:{SERVER_NAME}")
        };
        let password = params.text("password").unwrap_or_default();
        let known = self.users.get(&user).map(|user| user.password.as_str());
        if known != Some(password) || self.is_revoked && user == BOT_ID {
            return Err(ApiError::forbidden("Invalid username or password"));
        }
        let number = self.next();
        let device = params.text("device_id").filter(|id| !id.is_empty());
        let device = device.map_or_else(|| format!("TESTDEV{number:03}"), str::to_owned);
        let token = format!("syt_TESTtoken_{number:020}");
        // A login ends the earlier tokens of its device.
        self.tokens
            .retain(|_, old| old.user != user || old.device != device);
        self.add_device(&user, &device, &token);
        if let (Some(name), Some(device)) = (
            params.text("initial_device_display_name"),
            self.device_mut(&user, &device),
        ) {
            device.display_name.get_or_insert_with(|| name.to_owned());
        }
        success(json!({
            "user_id": user, "access_token": token, "device_id": device,
            "home_server": SERVER_NAME,
        }))
    }

    /// Ends the device of the token.
    pub(crate) fn log_out(&mut self, params: &Params) -> ApiResult {
        self.tokens
            .retain(|_, token| token.user != params.user || token.device != params.device);
        let position = self.next_position();
        if let Some(user) = self.users.get_mut(&params.user) {
            user.devices.remove(&params.device);
            user.keys_changed = position;
        }
        nothing()
    }

    pub(crate) fn whoami(&mut self, params: &Params) -> ApiResult {
        success(json!({
            "user_id": params.user, "device_id": params.device, "is_guest": false,
        }))
    }

    pub(crate) fn capabilities(&mut self, _: &Params) -> ApiResult {
        success(json!({"capabilities": {
            "m.change_password": {"enabled": false},
            "m.room_versions": {"default": "11", "available": {"11": "stable"}},
        }}))
    }

    /// Returns user and device of a token.
    pub(crate) fn user_of(&self, token: &str) -> Result<(String, String), ApiError> {
        let unknown = || ApiError::of_code("M_UNKNOWN_TOKEN");
        let token = self.tokens.get(token).ok_or_else(unknown)?;
        if self.is_revoked && token.user == BOT_ID {
            return Err(unknown());
        }
        if token.is_expired {
            let mut error = unknown();
            error.extra = json!({"soft_logout": true});
            return Err(error);
        }
        Ok((token.user.clone(), token.device.clone()))
    }

    /// Checks that a device still has a valid token.
    pub(crate) fn check_device(&self, user: &str, device: &str) -> Result<(), ApiError> {
        let mut tokens = self.tokens.iter();
        let own = tokens.find(|(_, token)| token.user == user && token.device == device);
        let token = own.map_or("", |(token, _)| token);
        self.user_of(token).map(drop)
    }

    pub(crate) fn device(&self, user: &str, device: &str) -> Option<&Device> {
        self.users.get(user)?.devices.get(device)
    }

    pub(crate) fn device_mut(&mut self, user: &str, device: &str) -> Option<&mut Device> {
        self.users.get_mut(user)?.devices.get_mut(device)
    }

    pub(crate) fn list_devices(&mut self, params: &Params) -> ApiResult {
        let user = self.users.get(&params.user).into_iter();
        let devices = user.flat_map(|user| &user.devices);
        let now = self.now();
        let devices = devices.map(|(id, device)| {
            json!({
                "device_id": id, "display_name": device.display_name,
                "last_seen_ip": "127.0.0.1", "last_seen_ts": now,
            })
        });
        success(json!({"devices": devices.collect::<Vec<_>>()}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::BOT_PASSWORD;
    use crate::probe::Probe;

    fn login(probe: &mut Probe, password: &str, device: Option<&str>) -> Value {
        let mut body = json!({
            "type": "m.login.password", "password": password,
            "identifier": {"type": "m.id.user", "user": "nanobot"},
        });
        if let Some(device) = device {
            body["device_id"] = json!(device);
        }
        probe.request("POST", "login", &body).1
    }

    #[test]
    fn login_makes_a_device_or_takes_an_old_one() {
        let mut probe = Probe::new();
        assert_eq!(login(&mut probe, "wrong", None)["errcode"], "M_FORBIDDEN");
        let new = login(&mut probe, BOT_PASSWORD, None);
        let (token, device) = (text(&new, "access_token"), text(&new, "device_id"));
        assert_eq!(text(&new, "user_id"), BOT_ID);
        probe.token = token.to_owned();
        assert_eq!(probe.get("account/whoami")["device_id"], json!(device));
        // The earlier token of a device ends.
        let again = login(&mut probe, BOT_PASSWORD, Some(device));
        assert_eq!(text(&again, "device_id"), device);
        assert_eq!(
            probe.code("GET", "account/whoami", &Value::Null),
            "M_UNKNOWN_TOKEN"
        );
        probe.token = text(&again, "access_token").to_owned();
        probe.call("POST", "logout", &Value::Null);
        assert_eq!(
            probe.code("GET", "account/whoami", &Value::Null),
            "M_UNKNOWN_TOKEN"
        );
        assert!(probe.state.device(BOT_ID, device).is_none());
        probe.state.is_revoked = true;
        assert_eq!(
            login(&mut probe, BOT_PASSWORD, None)["errcode"],
            "M_FORBIDDEN"
        );
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }

    #[test]
    fn expired_tokens_are_a_soft_logout() {
        let mut probe = Probe::new();
        for token in probe.state.tokens.values_mut() {
            token.is_expired = true;
        }
        let (status, body) = probe.request("GET", "account/whoami", &Value::Null);
        assert_eq!((status, &body["soft_logout"]), (401, &json!(true)));
    }
}
