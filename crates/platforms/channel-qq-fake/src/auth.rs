//! Tokens, the bot itself, and the address of the gateway.

use serde_json::{Value, json};

use crate::account::{APP_ID, BOT_ID, BOT_NAME, CLIENT_SECRET, TOKEN_PREFIX};
use crate::api::{ApiError, ApiResult};
use crate::params::Params;
use crate::state::{QqState, Token};

/// Validity of a token, in milliseconds.
const VALIDITY: i64 = 7_200_000;
/// Remaining validity up to which a new token is issued instead of the same one.
const RENEWAL: i64 = 60_000;

impl QqState {
    /// Issues a token. As at QQ, the same one until its last minute.
    pub(crate) fn issue_token(&mut self, params: &Params) -> ApiResult {
        let is_right = params.text("appId") == APP_ID
            && params.text("clientSecret") == CLIENT_SECRET
            && !self.is_revoked;
        if !is_right {
            return Err(ApiError::new(100_016));
        }
        let now = self.now();
        let recent = self.tokens.last();
        let recent = recent.filter(|token| token.expires - now > RENEWAL);
        let (value, expires) = match recent {
            Some(token) => (token.value.clone(), token.expires),
            None => {
                let (value, expires) = (self.next_id(TOKEN_PREFIX), now + VALIDITY);
                self.tokens.push(Token {
                    value: value.clone(),
                    expires,
                });
                (value, expires)
            }
        };
        let seconds = (expires - now) / 1000;
        Ok(json!({"access_token": value, "expires_in": seconds.to_string()}))
    }

    /// Returns `true` for a valid token with its scheme, `QQBot …`.
    pub(crate) fn is_authorized(&self, header: &str) -> bool {
        let now = self.now();
        let value = header.strip_prefix("QQBot ").unwrap_or_default();
        let mut tokens = self.tokens.iter();
        !self.is_revoked && tokens.any(|token| token.value == value && token.expires > now)
    }

    pub(crate) fn gateway(&self, is_for_bot: bool) -> Value {
        if !is_for_bot {
            return json!({"url": self.socket});
        }
        let first = self.identified.first().copied().unwrap_or_default();
        let reset = (first + 86_400_000 - self.now()).max(0);
        json!({
            "url": self.socket, "shards": 1,
            "session_start_limit": {
                "total": 1000, "remaining": self.remaining_sessions(), "reset_after": reset,
                "max_concurrency": 1,
            },
        })
    }
}

/// Returns the bot as a user.
pub(crate) fn me() -> Value {
    json!({
        "id": BOT_ID, "username": BOT_NAME, "avatar": "http://thirdqq.qlogo.cn/0",
        "share_url": "", "welcome_msg": "",
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::probe::Probe;

    const TOKEN: &str = "/app/getAppAccessToken";

    #[test]
    fn token_is_the_same_until_its_last_minute() {
        let mut probe = Probe::new();
        let body = json!({"appId": APP_ID, "clientSecret": CLIENT_SECRET});
        let first = probe.call("POST", TOKEN, &body);
        let validity: i64 = first["expires_in"].as_str().unwrap().parse().unwrap();
        assert!((7190..=7200).contains(&validity), "{validity}");
        for (seconds, is_same) in [(7100, true), (60, false)] {
            probe.state.advanced += Duration::from_secs(seconds);
            let next = probe.call("POST", TOKEN, &body);
            assert_eq!(next["access_token"] == first["access_token"], is_same);
        }
        let first = format!("QQBot {}", first["access_token"].as_str().unwrap());
        assert!(probe.state.is_authorized(&first));
        assert!(!probe.state.is_authorized(&first.replace("QQBot", "Bot")));
        probe.state.advanced += Duration::from_secs(40);
        assert!(!probe.state.is_authorized(&first));
    }

    #[test]
    fn wrong_secret_is_refused_with_status_200() {
        let mut probe = Probe::new();
        let wrong = json!({"appId": APP_ID, "clientSecret": "wrong"});
        let answer = probe.call("POST", TOKEN, &wrong);
        let expected = json!({"code": 100_016, "message": "invalid appid or secret"});
        assert_eq!(answer, expected);
        let number = json!({"appId": 1, "clientSecret": CLIENT_SECRET});
        assert_eq!(probe.code("POST", TOKEN, &number), 100_002);
        assert_eq!(probe.state.complaints.len(), 1);
    }

    #[test]
    fn identification_uses_up_the_limit_of_sessions() {
        let mut probe = Probe::new();
        probe.connect(0);
        let limit = |probe: &mut Probe| {
            let answer = probe.call("GET", "/gateway/bot", &Value::Null);
            answer["session_start_limit"]["remaining"].as_i64().unwrap()
        };
        assert_eq!(limit(&mut probe), 999);
        probe.state.advanced += Duration::from_secs(86_401);
        probe.renew_token();
        assert_eq!(limit(&mut probe), 1000);
    }
}
