//! QQ's refusals and their meaning to a channel.
//!
//! A refusal has a number. The numbers of the open API's public lists are sorted into families
//! here; a number of no family is about the content. This is the one place that knows them.

use std::fmt;
use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;
use reqwest::StatusCode;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in QQ's own terms.
pub(crate) type Refusal = QqRefusal;

/// The numbers of each family.
const FAMILIES: &[(Family, &[u64])] = &[
    (Family::Token, &[11_241, 11_243, 11_244]),
    (
        Family::App,
        &[
            10_001, 11_251, 11_261, 11_265, 11_275, 100_001, 100_007, 100_016, 100_017, 40_054_016,
        ],
    ),
    (
        Family::Rate,
        &[20_028, 50_002, 504_004, 610_013, 1_100_100, 1_100_308],
    ),
    (
        Family::Quota,
        &[
            22_009, 304_022, 304_035, 304_045, 304_046, 304_047, 304_048, 304_049, 304_050,
            304_082, 304_083, 40_034_100, 40_034_102, 40_034_105,
        ],
    ),
    (
        Family::Expired,
        &[
            304_026, 304_027, 304_028, 304_103, 40_034_005, 40_034_024, 40_034_025, 40_034_026,
            40_034_027, 40_034_128,
        ],
    ),
    (Family::Duplicate, &[40_054_005]),
    (
        Family::Place,
        &[
            10_003, 10_004, 11_255, 304_031, 304_032, 304_033, 304_034, 306_009, 610_007, 850_018,
            1_100_104, 1_100_301, 1_100_306, 40_034_101, 40_054_002, 40_054_003, 40_054_004,
            40_054_013,
        ],
    ),
    (
        Family::Size,
        &[304_005, 304_020, 850_031, 40_054_007, 40_054_018],
    ),
    (
        Family::Markdown,
        &[
            50_037, 50_041, 50_042, 50_054, 50_055, 50_056, 50_057, 304_014, 304_036, 40_034_008,
            40_034_009, 40_034_010, 40_034_011, 40_034_124, 40_034_127,
        ],
    ),
    (Family::Link, &[304_003, 40_054_010]),
    (Family::Scope, &[11_253, 11_254, 11_262, 11_264]),
    (
        Family::Busy,
        &[
            11_242, 11_252, 11_263, 850_027, 40_054_006, 40_093_001, 50_055_001, 50_055_002,
            50_055_006, 1_100_300,
        ],
    ),
];

/// The meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// The token: unknown or expired.
    Token,
    /// The credentials, or the whole bot.
    App,
    /// Too many calls.
    Rate,
    /// Too many messages that answer nothing, or none are allowed.
    Quota,
    /// The answered message: too old, answered too often, or unknown.
    Expired,
    /// A reply with the number of an earlier one.
    Duplicate,
    /// The chat or the person.
    Place,
    /// A length.
    Size,
    /// Markdown, or the permission for it.
    Markdown,
    /// An address in the text.
    Link,
    /// A permission that the bot lacks.
    Scope,
    /// Nothing was done, and a later try may succeed.
    Busy,
    /// The content.
    Content,
}

/// A refusal with QQ's number for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QqRefusal {
    family: Family,
    code: u64,
    /// In QQ's words.
    text: String,
}

impl fmt::Display for QqRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => f.write_str(&self.text),
            code => write!(f, "{} (code {code})", self.text),
        }
    }
}

impl QqRefusal {
    /// Creates the refusal of a message that would take the last reply.
    pub(crate) fn of_kept_reply() -> Self {
        Self::own("the last reply to this message is kept for the answer")
    }

    /// Creates the refusal of a file that is no picture, in a guild.
    pub(crate) fn of_file_in_guild() -> Self {
        Self::own("QQ takes only pictures in guilds")
    }

    fn own(text: &str) -> Self {
        Self {
            family: Family::Content,
            code: 0,
            text: text.to_owned(),
        }
    }

    /// `true` if the token was refused, so that another one may be accepted.
    pub(crate) fn is_about_the_token(&self) -> bool {
        self.family == Family::Token
    }

    /// `true` if QQ has a reply with the same number already.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.family == Family::Duplicate
    }

    /// `true` if the answered message cannot be answered any more.
    pub(crate) fn is_about_the_answered(&self) -> bool {
        self.family == Family::Expired
    }

    /// `true` if the text may be accepted without marks.
    pub(crate) fn is_about_markdown(&self) -> bool {
        self.family == Family::Markdown
    }

    /// `true` if the chat or the person is unknown, so that it may be one of another kind.
    pub(crate) fn is_about_the_place(&self) -> bool {
        self.family == Family::Place
    }

    /// Returns the failure of a reply. Its limits are those of the moment, not of a quota.
    pub(crate) fn into_reply_error(error: CallError) -> CallError {
        if error.is(|refusal| refusal.family == Family::Quota) {
            CallError::RateLimited(DEFAULT_RETRY_AFTER)
        } else {
            error
        }
    }

    /// `true` if a file may be accepted that was refused as a picture, film or recording.
    pub(crate) fn is_about_the_content(&self) -> bool {
        matches!(self.family, Family::Content | Family::Size)
    }
}

impl nanobot_channel_kit::Refusal for QqRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.family {
            Family::App | Family::Token => {
                ChannelError::Auth(format!("{text}; check appId and secret"))
            }
            Family::Place => ChannelError::NotFound(text),
            Family::Size => ChannelError::TooLarge(text),
            Family::Scope => ChannelError::Refused(format!("{text}; the bot lacks a permission")),
            Family::Link => ChannelError::Refused(format!(
                "{text}; QQ takes links only to addresses that are registered on the bot's page"
            )),
            Family::Quota => ChannelError::Refused(format!(
                "{text}; QQ limits messages that answer nothing: write to the bot, and it can reply again"
            )),
            Family::Expired
            | Family::Duplicate
            | Family::Markdown
            | Family::Content
            | Family::Rate
            | Family::Busy => ChannelError::Refused(text),
        }
    }
}

/// Returns the failure for a status with QQ's number and text. `pause` is the one that the answer
/// asks for.
pub(crate) fn from_code(
    status: StatusCode,
    code: u64,
    text: &str,
    pause: Option<Duration>,
) -> CallError {
    let family = match status {
        StatusCode::TOO_MANY_REQUESTS => Family::Rate,
        StatusCode::PAYLOAD_TOO_LARGE => Family::Size,
        StatusCode::SERVICE_UNAVAILABLE => Family::Busy,
        StatusCode::UNAUTHORIZED if family_of(code) != Family::App => Family::Token,
        StatusCode::NOT_FOUND if family_of(code) == Family::Content => Family::Place,
        _ => family_of(code),
    };
    let text = match text.trim() {
        "" => "no reason was given",
        text => text,
    };
    match family {
        Family::Rate => return CallError::RateLimited(pause.unwrap_or(DEFAULT_RETRY_AFTER)),
        Family::Busy => {
            let why = format!("QQ cannot do it now: {text} (code {code})");
            return CallError::Unreachable(why);
        }
        Family::Content if status.is_server_error() => {
            let why = format!("QQ failed in the middle of it: {text} (code {code})");
            return CallError::Interrupted(why);
        }
        _ => {}
    }
    CallError::Refused(QqRefusal {
        family,
        code,
        text: text.chars().take(500).collect(),
    })
}

fn family_of(code: u64) -> Family {
    let found = FAMILIES.iter().find(|(_, codes)| codes.contains(&code));
    found.map_or(Family::Content, |(family, _)| *family)
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
        let auth = "the platform refuses the credentials: no (code CODE); check appId and secret";
        let place = "cannot deliver there: no (code CODE)";
        let size = "too large for the platform: no (code CODE)";
        let rate = "rate limited for 5000 ms";
        let busy = "the platform cannot be reached: QQ cannot do it now: no (code CODE)";
        let refused = "the platform refuses: no (code CODE)";
        let scope = "the platform refuses: no (code CODE); the bot lacks a permission";
        let link = "the platform refuses: no (code CODE); QQ takes links only to addresses that are \
                    registered on the bot's page";
        let quota = "the platform refuses: no (code CODE); QQ limits messages that answer nothing: \
                     write to the bot, and it can reply again";
        let unknown =
            "unknown whether the platform took it: QQ failed in the middle of it: no (code CODE)";
        let table = [
            (401, 11_244, auth),
            (401, 5, auth),
            (401, 11_265, auth),
            (500, 11_241, auth),
            (200, 100_016, auth),
            (429, 5, rate),
            (400, 22_009, quota),
            (500, 40_034_100, quota),
            (400, 304_049, quota),
            (400, 40_034_101, place),
            (404, 1, place),
            (400, 40_054_007, size),
            (413, 1, size),
            (500, 50_055_001, busy),
            (503, 1, busy),
            (400, 40_054_010, link),
            (400, 11_253, scope),
            (400, 40_034_006, refused),
            (400, 40_034_128, refused),
            (404, 40_034_024, refused),
            (500, 1, unknown),
        ];
        for (status, code, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let error = ChannelError::from(from_code(status, code, "no", None));
            let expected = expected.replace("CODE", &code.to_string());
            assert_eq!(error.to_string(), expected, "{status} {code}");
        }
    }

    #[test]
    fn pause_of_the_answer_is_kept() {
        let pause = Some(Duration::from_secs(7));
        let error = from_code(StatusCode::TOO_MANY_REQUESTS, 0, "", pause);
        assert_eq!(error, CallError::RateLimited(Duration::from_secs(7)));
        let quota = from_code(StatusCode::BAD_REQUEST, 22_009, "", None);
        let reply = Refusal::into_reply_error(quota);
        assert_eq!(reply.retry_after(), Some(DEFAULT_RETRY_AFTER));
    }

    #[test]
    fn refusal_of_a_required_call_is_permanent() {
        let refused =
            |status, code| required_call_error(from_code(status, code, "no", None)).is_permanent();
        for code in [100_016, 11_253, 4_000_000] {
            assert!(refused(StatusCode::BAD_REQUEST, code), "{code}");
        }
        assert!(!refused(StatusCode::INTERNAL_SERVER_ERROR, 1));
    }
}
