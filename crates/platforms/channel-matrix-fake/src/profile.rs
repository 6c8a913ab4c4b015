//! Profiles, account data and other settings of users.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, nothing, success};
use crate::json::put;
use crate::params::Params;
use crate::state::MatrixState;

impl MatrixState {
    /// Returns the profile of a user; `Null` if it is unknown.
    pub(crate) fn profile(&self, user: &str) -> Value {
        let Some(user) = self.users.get(user) else {
            return Value::Null;
        };
        let mut profile = json!({});
        if let Some(name) = &user.display_name {
            put(&mut profile, &["displayname"], name.clone());
        }
        if let Some(avatar) = &user.avatar_url {
            put(&mut profile, &["avatar_url"], avatar.clone());
        }
        profile
    }

    pub(crate) fn get_profile(&mut self, params: &Params) -> ApiResult {
        let profile = self.profile(params.segment(0));
        if profile.is_null() {
            return Err(ApiError::not_found("Profile"));
        }
        match params.segment(1) {
            "" => success(profile),
            key @ ("displayname" | "avatar_url") => match profile.get(key) {
                Some(value) => success(json!({key: value})),
                None => success(json!({})),
            },
            _ => Err(ApiError::of_code("M_UNRECOGNIZED").clumsy()),
        }
    }

    pub(crate) fn put_profile(&mut self, params: &Params) -> ApiResult {
        params.check_user(params.segment(0))?;
        let key = params.segment(1);
        let value = params.text(key).map(str::to_owned);
        let value = value.ok_or_else(|| ApiError::malformed(format!("{key} is required")))?;
        let Some(user) = self.users.get_mut(&params.user) else {
            return Err(ApiError::not_found("User"));
        };
        match key {
            "displayname" => user.display_name = Some(value),
            "avatar_url" => user.avatar_url = Some(value),
            _ => return Err(ApiError::of_code("M_UNRECOGNIZED").clumsy()),
        }
        let rooms = self.rooms.iter();
        let joined = rooms.filter(|(_, room)| room.membership(&params.user) == "join");
        let joined: Vec<_> = joined.map(|(id, _)| id.clone()).collect();
        for room in joined {
            self.set_membership(&room, &params.user, &params.user, "join");
        }
        nothing()
    }

    pub(crate) fn put_presence(&mut self, params: &Params) -> ApiResult {
        params.check_user(params.segment(0))?;
        nothing()
    }

    pub(crate) fn get_account_data(&mut self, params: &Params) -> ApiResult {
        params.check_user(params.segment(0))?;
        let user = self.users.get(&params.user);
        let data = user.and_then(|user| user.account_data.get(&place(params)));
        let (_, content) = data.ok_or_else(|| ApiError::not_found("Account data"))?;
        success(content.clone())
    }

    pub(crate) fn put_account_data(&mut self, params: &Params) -> ApiResult {
        params.check_user(params.segment(0))?;
        let position = self.next_position();
        if let Some(user) = self.users.get_mut(&params.user) {
            let content = Value::Object(params.body.clone());
            user.account_data.insert(place(params), (position, content));
        }
        nothing()
    }

    pub(crate) fn push_rules(&mut self, _: &Params) -> ApiResult {
        success(json!({"global": {
            "override": [], "content": [], "room": [], "sender": [], "underride": [],
        }}))
    }
}

/// Returns the room of account data, empty for global data, and its type.
fn place(params: &Params) -> (String, String) {
    match params.path.as_slice() {
        [_, room, kind] => (room.clone(), kind.clone()),
        _ => (String::new(), params.segment(1).to_owned()),
    }
}
