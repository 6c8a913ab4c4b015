//! Tokens, the bot's description, and the offer of a long connection.

use serde_json::json;

use crate::account::{APP_ID, APP_SECRET, BOT_NAME, BOT_OPEN_ID, TOKEN_PREFIX};
use crate::api::ApiError;
use crate::frame::SERVICE;
use crate::handler::Outcome;
use crate::params::Params;
use crate::state::{FeishuState, Token};

/// Validity of a new token, in milliseconds.
const VALIDITY: i64 = 7_200_000;
/// Remaining validity below which a new token is issued instead of the same one.
const RENEWAL: i64 = 1_800_000;

impl FeishuState {
    /// Issues a token. As at Feishu, the same one while it is valid for at least half an hour.
    pub(crate) fn issue_token(&mut self, params: &Params) -> Result<Outcome, ApiError> {
        if params.text("app_id") != APP_ID {
            return Err(ApiError::new(10003));
        }
        if params.text("app_secret") != APP_SECRET || self.is_revoked {
            return Err(ApiError::new(10014));
        }
        let now = self.now();
        let recent = self
            .tokens
            .last()
            .filter(|token| token.expires - now >= RENEWAL);
        let (value, expires) = match recent {
            Some(token) => (token.value.clone(), token.expires),
            None => {
                let value = self.next_id(TOKEN_PREFIX);
                let expires = now + VALIDITY;
                self.tokens.push(Token {
                    value: value.clone(),
                    expires,
                });
                (value, expires)
            }
        };
        let expire = (expires - now) / 1000;
        Ok(Outcome::Whole(
            json!({"code": 0, "msg": "ok", "tenant_access_token": value, "expire": expire}),
        ))
    }

    pub(crate) fn is_valid_token(&self, value: &str) -> bool {
        let now = self.now();
        let mut tokens = self.tokens.iter();
        !self.is_revoked && tokens.any(|token| token.value == value && token.expires > now)
    }

    pub(crate) fn describe_bot(&self) -> Outcome {
        Outcome::Whole(json!({
            "code": 0, "msg": "ok",
            "bot": {
                "activate_status": 2, "app_name": BOT_NAME, "avatar_url": "", "ip_white_list": [],
                "open_id": BOT_OPEN_ID,
            },
        }))
    }

    /// Offers a URL of the long connection, which is good for one connection.
    pub(crate) fn offer_connection(&mut self, params: &Params) -> Result<Outcome, ApiError> {
        let (id, secret) = (params.text("AppID"), params.text("AppSecret"));
        if id.is_empty() || secret.is_empty() {
            return Err(ApiError::new(1000040344));
        }
        if id != APP_ID || secret != APP_SECRET || self.is_revoked {
            return Err(ApiError::new(514));
        }
        let ticket = self.next_id("");
        self.tickets.insert(ticket.clone());
        let query = format!(
            "fpid=493&aid=552564&device_id={}&access_key={ticket}&service_id={SERVICE}",
            self.next()
        );
        let url = format!("{}/ws/v2?{query}", self.socket);
        let config = self.client_config.json();
        Ok(Outcome::Whole(
            json!({"code": 0, "msg": "", "data": {"URL": url, "ClientConfig": config}}),
        ))
    }
}
