//! Tokens, and the offer of a connection of the gateway.

use serde_json::{Value, json};

use crate::account::{CLIENT_ID, CLIENT_SECRET, TICKET_PREFIX, TOKEN_PREFIX};
use crate::api::{ApiError, ApiResult};
use crate::connection::{Subscription, Ticket};
use crate::params::Params;
use crate::route::Host;
use crate::state::{DingTalkState, Token};

/// Validity of a token, in milliseconds.
const VALIDITY: i64 = 7_200_000;
/// Remaining validity below which a new token is issued instead of the same one.
const RENEWAL: i64 = 300_000;
/// Validity of a ticket, in milliseconds.
const TICKET_VALIDITY: i64 = 90_000;

impl DingTalkState {
    /// Issues a token. As at DingTalk, the same one while it is valid.
    pub(crate) fn issue_token(&mut self, params: &Params) -> ApiResult {
        if !self.is_secret(params.text("appKey"), params.text("appSecret")) {
            return Err(ApiError::new("invalidClientIdOrSecret"));
        }
        let now = self.now();
        let recent = self.tokens.last();
        let recent = recent.filter(|token| token.expires - now >= RENEWAL);
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
        Ok(json!({"accessToken": value, "expireIn": (expires - now) / 1000}))
    }

    pub(crate) fn is_valid_token(&self, value: &str) -> bool {
        let now = self.now();
        let mut tokens = self.tokens.iter();
        !self.is_revoked && tokens.any(|token| token.value == value && token.expires > now)
    }

    fn is_secret(&self, id: &str, secret: &str) -> bool {
        id == CLIENT_ID && secret == CLIENT_SECRET && !self.is_revoked
    }

    /// Offers the address of the gateway, and a ticket that is good for one connection.
    pub(crate) fn offer_connection(&mut self, params: &Params) -> ApiResult {
        if !self.is_secret(params.text("clientId"), params.text("clientSecret")) {
            return Err(ApiError::new("authFailed"));
        }
        let subscriptions = params.list("subscriptions").iter().map(subscription);
        let subscriptions: Option<Vec<Subscription>> = subscriptions.collect();
        let Some(subscriptions) = subscriptions.filter(|all| !all.is_empty()) else {
            return Err(ApiError::malformed(Host::Open, "subscriptions"));
        };
        let ticket = self.next_id(TICKET_PREFIX);
        let expires = self.now() + TICKET_VALIDITY;
        self.tickets.insert(
            ticket.clone(),
            Ticket {
                expires,
                subscriptions,
            },
        );
        Ok(json!({"endpoint": self.socket, "ticket": ticket}))
    }
}

fn subscription(value: &Value) -> Option<Subscription> {
    let text = |key| value.get(key).and_then(Value::as_str);
    let (kind, topic) = (text("type")?, text("topic")?);
    let is_known = matches!(kind, "CALLBACK" | "EVENT") && !topic.is_empty();
    is_known.then(|| Subscription {
        kind: kind.to_owned(),
        topic: topic.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::probe::Probe;

    const TOKEN: &str = "/v1.0/oauth2/accessToken";
    const OPEN: &str = "/v1.0/gateway/connections/open";

    #[test]
    fn token_is_the_same_until_shortly_before_its_end() {
        let mut probe = Probe::new();
        let body = json!({"appKey": CLIENT_ID, "appSecret": CLIENT_SECRET});
        let first = probe.call("POST", TOKEN, &body);
        let validity = first["expireIn"].as_i64().unwrap();
        assert!((7190..=7200).contains(&validity), "{validity}");
        for (seconds, is_same) in [(6000, true), (1000, false)] {
            probe.state.advanced += Duration::from_secs(seconds);
            let next = probe.call("POST", TOKEN, &body);
            assert_eq!(next["accessToken"] == first["accessToken"], is_same);
        }
        let first = first["accessToken"].as_str().unwrap();
        assert!(probe.state.is_valid_token(first));
        probe.state.advanced += Duration::from_secs(200);
        assert!(!probe.state.is_valid_token(first));
        let wrong = json!({"appKey": CLIENT_ID, "appSecret": "wrong"});
        assert_eq!(probe.code("POST", TOKEN, &wrong), "invalidClientIdOrSecret");
        let missing = json!({"appKey": CLIENT_ID});
        assert_eq!(probe.code("POST", TOKEN, &missing), "MissingappSecret");
    }

    #[test]
    fn connection_needs_credentials_and_subscriptions() {
        let mut probe = Probe::new();
        let body = |secret: &str, subscriptions: Value| json!({"clientId": CLIENT_ID, "clientSecret": secret, "subscriptions": subscriptions});
        let topic = json!([{"type": "CALLBACK", "topic": "/v1.0/im/bot/messages/get"}]);
        let table = [
            (body("wrong", topic.clone()), "authFailed"),
            (body(CLIENT_SECRET, json!([])), "invalidParameter"),
            (
                body(CLIENT_SECRET, json!([{"type": "MAIL", "topic": "x"}])),
                "invalidParameter",
            ),
            (body(CLIENT_SECRET, topic), ""),
        ];
        for (body, code) in table {
            assert_eq!(probe.code("POST", OPEN, &body), code, "{body}");
        }
        assert_eq!(
            (probe.state.tickets.len(), probe.state.complaints.len()),
            (1, 2)
        );
    }
}
