//! Outcomes of calls, in Telegram's format.

use nanobot_testkit::http::Response;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) description: String,
    pub(crate) retry_after: Option<u32>,
    /// Current id of the chat, if it became a supergroup.
    pub(crate) migrated_to: Option<i64>,
}

pub(crate) type ApiResult = Result<Value, ApiError>;

impl ApiError {
    pub(crate) fn new(code: u16, description: impl Into<String>) -> Self {
        Self {
            code,
            description: description.into(),
            retry_after: None,
            migrated_to: None,
        }
    }

    pub(crate) fn bad(description: impl AsRef<str>) -> Self {
        Self::new(400, format!("Bad Request: {}", description.as_ref()))
    }

    pub(crate) fn peer_takes_no_drafts() -> Self {
        Self::bad("TEXTDRAFT_PEER_INVALID")
    }

    pub(crate) fn retry_after(seconds: u32) -> Self {
        let description = format!("Too Many Requests: retry after {seconds}");
        Self {
            retry_after: Some(seconds),
            ..Self::new(429, description)
        }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized")
    }

    pub(crate) fn migrated(chat: i64) -> Self {
        Self {
            migrated_to: Some(chat),
            ..Self::bad("group chat was upgraded to a supergroup chat")
        }
    }

    pub(crate) fn webhook_is_active() -> Self {
        Self::new(
            409,
            "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook \
             first",
        )
    }

    pub(crate) fn unknown_method() -> Self {
        Self::new(404, "Not Found")
    }

    pub(crate) fn conflict() -> Self {
        Self::new(
            409,
            "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
        )
    }
}

pub(crate) fn response(outcome: &ApiResult) -> Response {
    match outcome {
        Ok(result) => Response::json(200, &json!({"ok": true, "result": result})),
        Err(error) => {
            let mut body =
                json!({"ok": false, "error_code": error.code, "description": error.description});
            if let Some(seconds) = error.retry_after {
                set(&mut body, "parameters", json!({"retry_after": seconds}));
            }
            if let Some(chat) = error.migrated_to {
                set(&mut body, "parameters", json!({"migrate_to_chat_id": chat}));
            }
            Response::json(error.code, &body)
        }
    }
}
