//! Outcomes of commands, and their answers.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

/// Reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: i64,
    message: String,
    /// `true` if a correct client never causes this error.
    is_clumsy: bool,
    /// `true` if the frame could not be read: the answer has no `req_id` then.
    is_unreadable: bool,
}

/// The body of a successful answer; `Null` if it has none.
pub(crate) type ApiResult = Result<Value, ApiError>;

/// Credentials.
pub(crate) const INVALID_CREDENTIALS: i64 = 853_000;
/// A `req_id` that belongs to no callback, or no longer.
pub(crate) const INVALID_REQ_ID: i64 = 846_605;
/// More messages than a chat takes.
pub(crate) const TOO_MANY_MESSAGES: i64 = 846_607;
/// A stream that is too old.
pub(crate) const STREAM_EXPIRED: i64 = 846_608;
/// A command on a connection without a subscription.
pub(crate) const NOT_SUBSCRIBED: i64 = 846_609;
/// More calls than the gateway takes.
pub(crate) const TOO_MANY_CALLS: i64 = 45_009;
/// A parameter.
pub(crate) const INVALID_PARAMETER: i64 = 40_058;
/// A type of media.
pub(crate) const INVALID_MEDIA_TYPE: i64 = 40_004;
/// A format of a file.
pub(crate) const INVALID_FILE_TYPE: i64 = 40_005;
/// The size of a file.
pub(crate) const INVALID_SIZE: i64 = 40_006;
/// The id of an upload.
pub(crate) const INVALID_MEDIA_ID: i64 = 40_007;
/// A type of message.
pub(crate) const INVALID_MESSAGE_TYPE: i64 = 40_008;
/// A missing chat.
pub(crate) const MISSING_CHAT: i64 = 86_201;
/// A chat.
pub(crate) const INVALID_CHAT: i64 = 93_006;

/// Codes with their message, and `true` if only an incorrect client causes them.
const CODES: &[(i64, &str, bool)] = &[
    (-1, "system busy", false),
    (INVALID_MEDIA_TYPE, "invalid media type", true),
    (INVALID_FILE_TYPE, "invalid file type", false),
    (INVALID_SIZE, "invalid file size", true),
    (INVALID_MEDIA_ID, "invalid media_id", false),
    (INVALID_MESSAGE_TYPE, "invalid message type", true),
    (INVALID_PARAMETER, "invalid Request Parameter", true),
    (40_201, "anti-spam check", false),
    (MISSING_CHAT, "missing chatid", true),
    (TOO_MANY_CALLS, "api freq out of limit", false),
    (INVALID_CHAT, "invalid chatid", false),
    (INVALID_REQ_ID, "invalid req_id", false),
    (
        TOO_MANY_MESSAGES,
        "aibot send msg frequency limit exceeded",
        false,
    ),
    (STREAM_EXPIRED, "stream message update expired", false),
    (NOT_SUBSCRIBED, "aibot websocket not subscribed", false),
    (INVALID_CREDENTIALS, "invalid bot_id or secret", false),
];

impl ApiError {
    /// Returns an error with its usual message.
    pub(crate) fn new(code: i64) -> Self {
        let known = CODES.iter().find(|(known, ..)| *known == code);
        let (_, message, is_clumsy) = known.copied().unwrap_or((code, "failed", false));
        Self {
            code,
            message: message.to_owned(),
            is_clumsy,
            is_unreadable: false,
        }
    }

    pub(crate) fn with_message(code: i64, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::new(code)
        }
    }

    /// Returns an error whose message has a reason.
    pub(crate) fn because(code: i64, reason: &str) -> Self {
        let error = Self::new(code);
        Self {
            message: format!("{}: {reason}", error.message),
            ..error
        }
    }

    /// Returns the refusal of a parameter.
    pub(crate) fn parameter(reason: &str) -> Self {
        Self::because(INVALID_PARAMETER, reason)
    }

    /// Returns the refusal of a frame that cannot be read. WeCom answers it without a `req_id`.
    pub(crate) fn unreadable(reason: &str) -> Self {
        let error = Self::new(INVALID_PARAMETER);
        Self {
            message: format!("{reason}. {}", error.message),
            is_unreadable: true,
            ..error
        }
    }

    /// Returns an error that no correct client causes.
    pub(crate) fn clumsy(self) -> Self {
        Self {
            is_clumsy: true,
            ..self
        }
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self, method: &str) -> Option<String> {
        self.is_clumsy
            .then(|| format!("{method}: {} {}", self.code, self.message))
    }
}

/// Returns the answer to a command. `log` is the number of the command.
pub(crate) fn answer(req_id: &str, result: &ApiResult, log: u64) -> Value {
    let mut frame = json!({"headers": {"req_id": req_id}, "errcode": 0, "errmsg": "ok"});
    match result {
        Ok(Value::Null) => {}
        Ok(body) => set(&mut frame, "body", body.clone()),
        Err(error) => {
            let ApiError { code, message, .. } = error;
            let query = "https://open.work.weixin.qq.com/devtool/query?e=";
            let hint = format!("hint: [{log:022}], from ip: 127.0.0.1");
            let message = format!("{message}, {hint}, more info at {query}{code}");
            set(&mut frame, "errcode", *code);
            set(&mut frame, "errmsg", message);
            if error.is_unreadable
                && let Some(members) = frame.as_object_mut()
            {
                members.remove("headers");
            }
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_code_and_a_body() {
        let done = answer("a", &Ok(Value::Null), 1);
        let expected = json!({"headers": {"req_id": "a"}, "errcode": 0, "errmsg": "ok"});
        assert_eq!(done, expected);
        let with_body = answer("a", &Ok(json!({"x": 1})), 1);
        assert_eq!(with_body["body"], json!({"x": 1}));
        let refused = answer("a", &Err(ApiError::new(INVALID_REQ_ID)), 1);
        assert_eq!(refused["errcode"], INVALID_REQ_ID);
        let message = refused["errmsg"].as_str().unwrap();
        assert!(message.starts_with("invalid req_id, hint: ["), "{message}");
        let unreadable = answer("a", &Err(ApiError::unreadable("missing field `body.x`")), 1);
        assert_eq!(
            (unreadable.get("headers"), &unreadable["errcode"]),
            (None, &json!(40_058))
        );
    }
}
