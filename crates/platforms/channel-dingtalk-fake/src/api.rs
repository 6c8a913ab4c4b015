//! Outcomes of calls, in the formats of the two hosts.

use nanobot_testkit::http::Response;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::route::Host;

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// A word; a number for the older API.
    pub(crate) code: String,
    status: u16,
    message: String,
    /// Permissions that the app lacks.
    scopes: Vec<String>,
    /// `true` if a correct client never causes this error.
    is_clumsy: bool,
}

pub(crate) type ApiResult = Result<Value, ApiError>;

/// Codes with their status, their message, and whether only an incorrect client causes them.
const CODES: &[(&str, u16, &str, bool)] = &[
    (
        "invalidClientIdOrSecret",
        400,
        "无效的clientId或者clientSecret",
        false,
    ),
    ("authFailed", 401, "鉴权失败", false),
    ("InvalidAuthentication", 400, "不合法的access_token", false),
    (
        "Forbidden.AccessDenied.AccessTokenPermissionDenied",
        403,
        "没有调用该接口的权限",
        false,
    ),
    (
        "Forbidden.AccessDenied.QpsLimitForApi",
        403,
        "您的服务器调用钉钉开放平台的QPS超过限制",
        false,
    ),
    ("invalidParameter", 400, "参数错误", true),
    ("invalidParameter.msgKey", 400, "msgKey无效", true),
    ("invalidParameter.msgParam", 400, "msgParam无效", true),
    ("invalidParameter.mediaId", 400, "mediaId无效", true),
    ("msgParam.tooLong", 400, "消息内容过长", true),
    ("robotCode.notExist", 400, "robotCode不存在", true),
    (
        "openConversationId.notExist",
        400,
        "openConversationId不存在",
        false,
    ),
    ("robot.notInConversation", 400, "机器人不在群内", false),
    ("downloadCode.invalid", 400, "downloadCode无效", false),
    (
        "param.templateNotExist",
        400,
        "param.templateNotExist",
        false,
    ),
    (
        "param.outTrackIdNotExist",
        400,
        "param.outTrackIdNotExist",
        false,
    ),
    ("param.cardFinished", 400, "param.cardFinished", false),
    ("param.error", 400, "param.error", true),
    ("ServiceUnavailable", 503, "系统繁忙", false),
    ("unknownError", 500, "未知错误", false),
    ("-1", 200, "系统繁忙", false),
    ("40004", 200, "不合法的媒体文件类型", true),
    ("40005", 200, "不合法的文件类型", false),
    ("40006", 200, "不合法的文件大小", true),
    ("40014", 200, "不合法的access_token", false),
    ("40035", 200, "不合法的参数", true),
    ("41005", 200, "缺少多媒体文件数据", true),
    ("90018", 200, "调用过于频繁", false),
    ("300001", 200, "token is not exist", false),
];

impl ApiError {
    /// Returns an error with its usual status and message.
    pub(crate) fn new(code: &str) -> Self {
        let known = CODES.iter().find(|(known, ..)| *known == code);
        // A number without an entry belongs to the older API, which always answers 200.
        let status = if code.parse::<i64>().is_ok() {
            200
        } else {
            400
        };
        let (_, status, message, is_clumsy) =
            known.copied().unwrap_or(("", status, "failed", false));
        Self {
            code: code.to_owned(),
            status,
            message: message.to_owned(),
            scopes: Vec::new(),
            is_clumsy,
        }
    }

    pub(crate) fn with_message(code: &str, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::new(code)
        }
    }

    /// Returns an error whose message ends with a reason.
    pub(crate) fn because(code: &str, reason: &str) -> Self {
        let error = Self::new(code);
        Self {
            message: format!("{}: {reason}", error.message),
            ..error
        }
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Returns the refusal of a call without a parameter that it needs.
    pub(crate) fn missing(host: Host, field: &str) -> Self {
        let reason = format!("{field} is mandatory for this action.");
        match host {
            Host::Open => Self {
                is_clumsy: true,
                ..Self::with_message(&format!("Missing{field}"), reason)
            },
            Host::Oapi => Self::because("40035", &reason),
        }
    }

    /// Returns the refusal of a malformed parameter.
    pub(crate) fn malformed(host: Host, reason: &str) -> Self {
        match host {
            Host::Open => Self::because("invalidParameter", reason),
            Host::Oapi => Self::because("40035", reason),
        }
    }

    /// Returns the refusal of a token.
    pub(crate) fn token(host: Host) -> Self {
        match host {
            Host::Open => Self::new("InvalidAuthentication"),
            Host::Oapi => Self::new("40014"),
        }
    }

    /// Returns the refusal of a call above the limit of calls.
    pub(crate) fn too_many(host: Host) -> Self {
        match host {
            Host::Open => Self::new("Forbidden.AccessDenied.QpsLimitForApi"),
            Host::Oapi => Self::new("90018"),
        }
    }

    /// Returns the refusal of a call that needs a permission.
    pub(crate) fn of_scope(scope: &str) -> Self {
        Self {
            scopes: vec![scope.to_owned()],
            ..Self::new("Forbidden.AccessDenied.AccessTokenPermissionDenied")
        }
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self, method: &str) -> Option<String> {
        self.is_clumsy
            .then(|| format!("{method}: {} {}", self.code, self.message))
    }
}

/// Returns the response of a failed call. `log` is the number of the request.
pub(crate) fn refusal(error: &ApiError, host: Host, log: u64) -> Response {
    let request = format!("7E570000-0000-0000-0000-{log:012}");
    let body = match host {
        Host::Open => {
            let mut body =
                json!({"code": error.code, "message": error.message, "requestid": request});
            if !error.scopes.is_empty() {
                let detail = json!({"requiredScopes": error.scopes});
                set(&mut body, "accessdenieddetail", detail);
            }
            body
        }
        // Limits of calls have a general number, and their own in a second member.
        Host::Oapi if error.code == "90018" => json!({
            "errcode": 88, "errmsg": format!("ding talk error[subcode={},submsg={}]", error.code, error.message),
            "sub_code": error.code, "sub_msg": error.message, "request_id": request,
        }),
        Host::Oapi => json!({
            "errcode": error.code.parse::<i64>().unwrap_or(-1), "errmsg": error.message,
            "request_id": request,
        }),
    };
    json_response(error.status, &body)
}

/// Returns a JSON response.
pub(crate) fn json_response(status: u16, body: &Value) -> Response {
    let mut response = Response::json(status, body);
    response.headers.clear();
    response.with_header("Content-Type", "application/json;charset=utf-8")
}
