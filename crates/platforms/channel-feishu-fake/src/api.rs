//! Outcomes of calls, in Feishu's format.

use nanobot_testkit::http::Response;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: u64,
    message: String,
    details: Value,
    /// `true` if a test made a correct call fail.
    is_excused: bool,
}

pub(crate) type ApiResult = Result<Value, ApiError>;

/// Codes, and Feishu's messages for them, in its spelling.
const MESSAGES: &[(u64, &str)] = &[
    (1, "system busy"),
    (403, "forbidden"),
    (514, "auth failed"),
    (10002, "Your request contains an invalid request parameter."),
    (10003, "invalid param"),
    (10014, "app secret invalid"),
    (200220, "Failed to generate card content"),
    (200740, "The card entity does not exist"),
    (200750, "The card entity has expired"),
    (200770, "UUID conflict"),
    (200850, "Card streaming timeout"),
    (200860, "Card content exceeds limit."),
    (
        230001,
        "Your request contains an invalid request parameter.",
    ),
    (230002, "Bot/User can NOT be out of the chat."),
    (230009, "Message can only be recalled within one days."),
    (230011, "The message is recalled."),
    (230013, "Bot has NO availability to this user."),
    (230017, "Bot is NOT the owner of the resource."),
    (230020, "This operation triggers the frequency limit."),
    (
        230022,
        "The content of the message contains sensitive information.",
    ),
    (
        230025,
        "The length of the message content reaches its limit.",
    ),
    (230026, "No permission to recall this message."),
    (
        230031,
        "Message can only be modified within 14 days after sending.",
    ),
    (230034, "The receive_id is invalid."),
    (230049, "The message is being sent."),
    (
        230054,
        "This operation is not supported for this message type.",
    ),
    (
        230055,
        "The type of file upload does not match the type of message being sent.",
    ),
    (230071, "The operator is not the sender of the message."),
    (
        230072,
        "The message has reached the number of times it can be edited.",
    ),
    (230099, "Failed to create card content"),
    (231001, "reaction type is invalid."),
    (
        231002,
        "The operator has no permission to react on the specific message.",
    ),
    (
        231003,
        "The message is not found, maybe not exist or deleted.",
    ),
    (
        231007,
        "The operator has no permission to delete this reaction.",
    ),
    (231008, "The operator has no access to the message."),
    (231010, "The reaction does not belong to the message."),
    (231011, "The request has an invalid reaction_id."),
    (
        232009,
        "Your request specifies a chat which has already been dissolved.",
    ),
    (234001, "Invalid request param."),
    (234003, "File not in message."),
    (234004, "App not in chat."),
    (234006, "The file size exceed the max value."),
    (234008, "The app is not the resource sender."),
    (234010, "File's size can't be 0."),
    (234011, "Can't regonnize the image format."),
    (234039, "Image resolution exceeds limit."),
    (300122, "Failed to update card configuration"),
    (300301, "Duplicate element_id in card component"),
    (300302, "update_multi property is false"),
    (300305, "ErrMsg: element exceeds the limit"),
    (300307, "The card DSL is empty"),
    (300309, "streaming mode is closed"),
    (300310, "Only update text"),
    (300313, "ErrMsg: not find elementID"),
    (300317, "sequence number compare failed"),
    (99991400, "request trigger frequency limit"),
    (
        99991661,
        "Missing access token for authorization. Please make a test attempt.",
    ),
    (
        99991663,
        "Invalid access token for authorization. Please make a test attempt.",
    ),
    (99991672, "Access denied."),
    (
        99992354,
        "The request you send is not a valid {open_message_id} or not exists, example value: om_0a",
    ),
    (99992402, "field validation failed"),
    (1000040343, "internal error"),
    (1000040344, "no credential"),
    (1000040350, "exceed connection limit"),
];
/// Codes that a correct client never causes.
const CLUMSY: &[u64] = &[
    10002, 10003, 200220, 200860, 230001, 230025, 230054, 230055, 230099, 231001, 231011, 234001,
    234006, 234010, 300122, 300301, 300302, 300305, 300307, 300313, 99992402,
];

/// Returns the documented message of a code.
pub(crate) fn message(code: u64) -> &'static str {
    let known = MESSAGES.iter().find(|(known, _)| *known == code);
    known.map_or("failed", |(_, message)| *message)
}

impl ApiError {
    /// Returns an error with its documented message.
    pub(crate) fn new(code: u64) -> Self {
        Self::with_message(code, message(code))
    }

    pub(crate) fn with_message(code: u64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: json!({}),
            is_excused: false,
        }
    }

    /// Returns an error whose message ends with a reason, as Feishu's messages do.
    pub(crate) fn because(code: u64, reason: impl AsRef<str>) -> Self {
        Self::with_message(code, format!("{} ext={}", message(code), reason.as_ref()))
    }

    /// Excuses the client: the error is no complaint.
    pub(crate) fn excused_if(self, is_excused: bool) -> Self {
        Self { is_excused, ..self }
    }

    /// Returns the refusal of one parameter.
    pub(crate) fn of_field(field: &str, description: &str) -> Self {
        let mut error = Self::new(99992402);
        let violation = json!({"field": field, "description": description});
        error.details = json!({"field_violations": [violation]});
        error
    }

    /// Returns the refusal of a call that needs a permission.
    pub(crate) fn of_scope(scope: &str) -> Self {
        let reason = format!("Access denied. One of the following scopes is required: [{scope}].");
        let mut error = Self::with_message(99991672, reason);
        let violation = json!({"type": "action_scope_required", "subject": scope});
        error.details = json!({"permission_violations": [violation]});
        error
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self, method: &str) -> Option<String> {
        let details = if self.details == json!({}) {
            String::new()
        } else {
            format!(" {}", self.details)
        };
        (CLUMSY.contains(&self.code) && !self.is_excused)
            .then(|| format!("{method}: {} {}{details}", self.code, self.message))
    }

    fn status(&self) -> u16 {
        match self.code {
            99991400 => 429,
            // The codes of the token and of the long connection are those of a successful request.
            1 | 403 | 514 | 10003 | 10014 | 1000040343..=1000040350 => 200,
            _ => 400,
        }
    }
}

/// Returns the response of a failed call. `log` is the number of the request.
pub(crate) fn refusal(error: &ApiError, log: u64) -> Response {
    let log_id = log_id(log);
    let mut details = error.details.clone();
    set(&mut details, "log_id", log_id.as_str());
    let body = json!({"code": error.code, "msg": error.message, "error": details});
    json_response(error.status(), &body).with_header("X-Tt-Logid", log_id)
}

/// Returns the response of a successful call.
pub(crate) fn success(data: &Value, log: u64) -> Response {
    let body = json!({"code": 0, "msg": "success", "data": data});
    json_response(200, &body).with_header("X-Tt-Logid", log_id(log))
}

/// Returns a JSON response. Feishu's own client depends on the capitals in names of headers.
pub(crate) fn json_response(status: u16, body: &Value) -> Response {
    let mut response = Response::json(status, body);
    response.headers.clear();
    response.with_header("Content-Type", "application/json; charset=utf-8")
}

fn log_id(log: u64) -> String {
    format!("20260101000000{log:020}")
}
