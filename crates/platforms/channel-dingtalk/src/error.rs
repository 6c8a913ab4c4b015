//! DingTalk's refusals and their meaning to a channel.
//!
//! The open API names a refusal by a word (`Forbidden.AccessDenied.QpsLimitForApi`), the older one
//! by a number. Words vary from call to call, so a family of them is recognised by its last part,
//! without regard to case and dots. This is the one place that knows them.

use std::fmt;
use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;
use reqwest::StatusCode;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in DingTalk's own terms.
pub(crate) type Refusal = DingTalkRefusal;

/// Words and numbers of each family, in the order in which they are looked up. Words are in lower
/// case, without dots.
const FAMILIES: &[(Family, &[&str], &[&str])] = &[
    (
        Family::Rate,
        &[
            "qpslimit",
            "throttling",
            "flowcontrol",
            "toofast",
            "toomanyrequest",
            "frequency",
            "ratelimit",
        ],
        &[
            "90001", "90002", "90003", "90004", "90005", "90006", "90018", "90022", "130101",
        ],
    ),
    (
        Family::App,
        &[
            "clientidorsecret",
            "authfailed",
            "invalidclient",
            "invalidappkey",
            "invalidsecret",
            "appnotexist",
        ],
        &["40013", "40089", "40096", "40101"],
    ),
    (
        Family::Token,
        &[
            "invalidauthentication",
            "accesstokeninvalid",
            "invalidaccesstoken",
            "tokenexpire",
        ],
        &["40001", "40014", "41001", "42001"],
    ),
    (
        Family::Scope,
        &["permissiondenied", "accessdenied", "nopermission"],
        &["60011", "50002"],
    ),
    (
        Family::Place,
        &[
            "notexist",
            "notfound",
            "notin",
            "invalidstaffid",
            "invaliduserid",
            "conversation",
            "disband",
        ],
        &["33012", "34001", "60121"],
    ),
    (
        Family::Size,
        &[
            "toolong",
            "toolarge",
            "oversize",
            "sizelimit",
            "lengthlimit",
            "outoflength",
        ],
        &["40006", "40009", "40056"],
    ),
    (Family::Busy, &["serviceunavailable", "systembusy"], &["-1"]),
];

/// The meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Too many calls.
    Rate,
    /// The credentials, or the whole app.
    App,
    /// The token: unknown or expired.
    Token,
    /// A permission that the app lacks.
    Scope,
    /// The chat or the person.
    Place,
    /// A length.
    Size,
    /// Nothing was done, and a later try may succeed.
    Busy,
    /// The content.
    Content,
}

/// A refusal with DingTalk's word or number for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DingTalkRefusal {
    family: Family,
    code: String,
    /// In DingTalk's words.
    text: String,
}

impl fmt::Display for DingTalkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.text, self.code)
    }
}

impl DingTalkRefusal {
    /// Creates the refusal of one recipient.
    pub(crate) fn of_recipient(id: &str) -> Self {
        Self {
            family: Family::Place,
            code: "invalidStaffIdList".to_owned(),
            text: format!("`{id}` is no member of the organisation"),
        }
    }

    /// `true` if the token was refused, so that another one may be accepted.
    pub(crate) fn is_about_the_token(&self) -> bool {
        self.family == Family::Token
    }

    /// `true` if a file may be accepted that was refused as an image.
    pub(crate) fn is_about_the_content(&self) -> bool {
        matches!(self.family, Family::Content | Family::Size)
    }

    /// `true` if the credentials are at fault, not the call.
    pub(crate) fn is_about_the_app(&self) -> bool {
        matches!(self.family, Family::App | Family::Token)
    }
}

impl nanobot_channel_kit::Refusal for DingTalkRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.family {
            Family::App | Family::Token => {
                ChannelError::Auth(format!("{text}; check clientId and clientSecret"))
            }
            Family::Place => ChannelError::NotFound(text),
            Family::Size => ChannelError::TooLarge(text),
            Family::Scope => ChannelError::Refused(format!("{text}; the app lacks a permission")),
            Family::Content | Family::Rate | Family::Busy => ChannelError::Refused(text),
        }
    }
}

/// Returns the failure for a status with DingTalk's code and text. `pause` is the one that the
/// answer asks for.
pub(crate) fn from_code(
    status: StatusCode,
    code: &str,
    text: &str,
    pause: Option<Duration>,
) -> CallError {
    let family = match status {
        StatusCode::TOO_MANY_REQUESTS => Family::Rate,
        StatusCode::PAYLOAD_TOO_LARGE => Family::Size,
        StatusCode::SERVICE_UNAVAILABLE => Family::Busy,
        _ => family_of(code),
    };
    let text = match text.trim() {
        "" => "no reason was given",
        text => text,
    };
    match family {
        Family::Rate => return CallError::RateLimited(pause.unwrap_or(DEFAULT_RETRY_AFTER)),
        Family::Busy => {
            let why = format!("DingTalk cannot do it now: {text} (code {code})");
            return CallError::Unreachable(why);
        }
        Family::Content if status.is_server_error() => {
            let why = format!("DingTalk failed in the middle of it: {text} (code {code})");
            return CallError::Interrupted(why);
        }
        _ => {}
    }
    let head = |text: &str, limit| text.chars().take(limit).collect();
    CallError::Refused(DingTalkRefusal {
        family,
        code: head(code, 100),
        text: head(text, 500),
    })
}

fn family_of(code: &str) -> Family {
    let word: String = code
        .chars()
        .filter(|c| *c != '.' && *c != '_')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let found = FAMILIES.iter().find(|(_, words, numbers)| {
        numbers.contains(&code) || words.iter().any(|known| word.contains(known))
    });
    found.map_or(Family::Content, |(family, ..)| *family)
}

/// Returns the meaning of a failure for a call that the channel cannot run without: any refusal of
/// it is as bad as wrong credentials.
pub(crate) fn required_call_error(error: CallError) -> ChannelError {
    match error.repeatable() {
        ChannelError::Refused(why) | ChannelError::NotFound(why) | ChannelError::TooLarge(why) => {
            ChannelError::Auth(why)
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_map_to_channel_errors() {
        let auth =
            "the platform refuses the credentials: no (code CODE); check clientId and clientSecret";
        let place = "cannot deliver there: no (code CODE)";
        let size = "too large for the platform: no (code CODE)";
        let rate = "rate limited for 5000 ms";
        let busy = "the platform cannot be reached: DingTalk cannot do it now: no (code CODE)";
        let refused = "the platform refuses: no (code CODE)";
        let scope = "the platform refuses: no (code CODE); the app lacks a permission";
        let unknown = "unknown whether the platform took it: DingTalk failed in the middle of it: no (code CODE)";
        let table = [
            (400, "invalidClientIdOrSecret", auth),
            (401, "authFailed", auth),
            (400, "InvalidAuthentication", auth),
            (200, "40014", auth),
            (403, "Forbidden.AccessDenied.QpsLimitForApi", rate),
            (
                403,
                "Forbidden.AccessDenied.AccessTokenPermissionDenied",
                scope,
            ),
            (429, "anything", rate),
            (400, "send.too.fast", rate),
            (200, "90018", rate),
            (400, "staffId.notExisted", place),
            (404, "resource.not.found", place),
            (400, "invalid.openConversationId", place),
            (400, "robot.not.in.group", place),
            (413, "any", size),
            (400, "msgParam.tooLong", size),
            (503, "ServiceUnavailable", busy),
            (500, "unknownError", unknown),
            (200, "-1", busy),
            (400, "invalidParameter.msgKey", refused),
        ];
        for (status, code, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let error = ChannelError::from(from_code(status, code, "no", None));
            assert_eq!(error.to_string(), expected.replace("CODE", code), "{code}");
        }
    }

    #[test]
    fn pause_of_the_answer_is_kept() {
        let pause = Some(Duration::from_secs(7));
        let error = from_code(StatusCode::TOO_MANY_REQUESTS, "", "", pause);
        assert_eq!(error, CallError::RateLimited(Duration::from_secs(7)));
    }

    #[test]
    fn refusal_of_a_required_call_is_permanent() {
        let refused =
            |code| required_call_error(from_code(StatusCode::BAD_REQUEST, code, "no", None));
        for code in [
            "invalidClientIdOrSecret",
            "AccessDenied",
            "invalidParameter",
        ] {
            assert!(refused(code).is_permanent(), "{code}");
        }
        let failed = from_code(StatusCode::INTERNAL_SERVER_ERROR, "oops", "", None);
        let failed = required_call_error(failed);
        assert!(matches!(failed, ChannelError::Unavailable(_)), "{failed}");
    }
}
