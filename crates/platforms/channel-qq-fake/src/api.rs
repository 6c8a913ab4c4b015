//! Outcomes of calls.

use nanobot_testkit::http::Response;
use serde_json::{Value, json};

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: i64,
    status: u16,
    message: String,
    /// `true` if a correct client never causes this error.
    is_clumsy: bool,
}

pub(crate) type ApiResult = Result<Value, ApiError>;

/// Codes with their status, their message, and whether only an incorrect client causes them.
const CODES: &[(i64, u16, &str, bool)] = &[
    // Tokens.
    (100_016, 200, "invalid appid or secret", false),
    (100_002, 200, "internal err", true),
    (11_241, 401, "鉴权失败", true),
    (11_244, 401, "token not exist or expire", false),
    // Calls.
    (11_255, 400, "请求参数错误", true),
    (22_009, 429, "消息发送超频", false),
    (500_000, 500, "系统繁忙", false),
    (50_055_001, 500, "消息发送异常，可稍后重试", false),
    // Content of messages.
    (22_006, 400, "消息类型与内容不匹配", true),
    (50_006, 400, "消息为空", true),
    (304_003, 400, "url未报备", false),
    (304_036, 400, "无Markdown模板权限", false),
    (304_080, 400, "文件信息无效", false),
    (340_069, 400, "消息类型无效", true),
    (40_034_004, 400, "富媒体信息转存失败", false),
    (40_034_006, 400, "消息内容违规", false),
    // A client that does not know the outcome of a send repeats it with the same number.
    (40_054_005, 400, "消息被去重，请检查请求msgseq", false),
    (40_054_007, 400, "消息长度超限", true),
    (40_054_010, 400, "不允许发送URL", false),
    // Replies.
    (304_026, 400, "MSG_ID错误", false),
    (304_027, 400, "MSG_ID过期", false),
    (40_034_005, 400, "回复消息msg_id已过期", false),
    (40_034_024, 400, "请求参数msg_id无效或越权", false),
    (40_034_025, 400, "请求参数event_id无效", false),
    (40_034_128, 400, "被动回复时间或次数超限", false),
    // Messages that are no replies.
    (304_045, 400, "推送频道消息超频", false),
    (304_049, 400, "私信消息超频", false),
    (40_034_100, 400, "主动消息超过频控", false),
    (40_034_105, 400, "主动消息失败, 无权限", false),
    // Chats.
    (10_003, 400, "子频道异常", false),
    (10_004, 400, "频道异常", false),
    (40_034_101, 400, "机器人不是群成员", false),
    (40_054_002, 400, "机器人被禁言", false),
    (40_054_004, 400, "无好友关系", false),
];

impl ApiError {
    /// Returns an error with its usual status and message.
    pub(crate) fn new(code: i64) -> Self {
        let known = CODES.iter().find(|(known, ..)| *known == code);
        let (_, status, message, is_clumsy) =
            known.copied().unwrap_or((code, 400, "failed", false));
        Self {
            code,
            status,
            message: message.to_owned(),
            is_clumsy,
        }
    }

    pub(crate) fn with_message(code: i64, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::new(code)
        }
    }

    /// Returns an error whose message ends with a reason.
    pub(crate) fn because(code: i64, reason: &str) -> Self {
        let error = Self::new(code);
        Self {
            message: format!("{}: {reason}", error.message),
            ..error
        }
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Returns the refusal of a call whose parameters are missing or malformed.
    pub(crate) fn malformed(reason: &str) -> Self {
        Self::because(11_255, reason)
    }

    /// Returns a complaint if no correct client should ever cause this error.
    pub(crate) fn complaint(&self, method: &str) -> Option<String> {
        self.is_clumsy
            .then(|| format!("{method}: {} {}", self.code, self.message))
    }
}

/// Returns the response of a failed call. `log` is the number of the request.
pub(crate) fn refusal(error: &ApiError, log: u64) -> Response {
    // The host of tokens has a shorter format.
    if error.status == 200 {
        let body = json!({"code": error.code, "message": error.message});
        return Response::json(200, &body);
    }
    let trace = trace(log);
    let body = json!({
        "message": error.message, "code": error.code, "err_code": error.code, "trace_id": trace,
    });
    Response::json(error.status, &body).with_header("X-Tps-trace-ID", trace)
}

/// Returns the id of a request for its operators.
pub(crate) fn trace(log: u64) -> String {
    format!("7e57{log:028x}")
}
