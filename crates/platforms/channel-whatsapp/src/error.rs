//! The bridge's refusals and their meaning to a channel.
//!
//! The bridge names a refusal by a word. This is the one place that knows them.

use std::fmt;
use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;

use crate::wire::{number, shortened, text};

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in the bridge's own terms.
pub(crate) type Refusal = WhatsAppRefusal;

/// Longest text of a refusal that is kept, in characters.
const TEXT_LIMIT: usize = 200;
/// The advice for an account without a linked device.
pub(crate) const NOT_LINKED: &str =
    "no device is linked to the account: run `nanobot channels login whatsapp`";

/// The meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// The account has no linked device.
    Link,
    /// The chat or the person.
    Place,
    /// A length.
    Size,
    /// The content.
    Content,
}

/// A refusal with the bridge's words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatsAppRefusal {
    family: Family,
    text: String,
}

impl fmt::Display for WhatsAppRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl WhatsAppRefusal {
    /// The refusal of what version 1 of the protocol does not have.
    pub(crate) fn of_version_1() -> Self {
        Self {
            family: Family::Content,
            text: "the bridge speaks version 1 of the protocol, which has texts only".to_owned(),
        }
    }

    /// `true` if a file may be accepted as a document that was refused as an image or a video.
    pub(crate) fn is_about_the_content(&self) -> bool {
        matches!(self.family, Family::Content | Family::Size)
    }
}

impl nanobot_channel_kit::Refusal for WhatsAppRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.family {
            Family::Link => ChannelError::Auth(text),
            Family::Place => ChannelError::NotFound(text),
            Family::Size => ChannelError::TooLarge(text),
            Family::Content => ChannelError::Refused(text),
        }
    }
}

/// Returns the failure that an `error` of version 2 means.
pub(crate) fn from_answer(error: &Value) -> CallError {
    let code = text(error, "code");
    let words = shortened(text(error, "error").trim(), TEXT_LIMIT);
    let said = match words.as_str() {
        "" => code.chars().take(TEXT_LIMIT).collect(),
        words => words.to_owned(),
    };
    let refused = |family| {
        let text = said.clone();
        CallError::Refused(Refusal { family, text })
    };
    match code {
        "not_connected" => CallError::Unreachable(format!("WhatsApp is not connected: {said}")),
        "unlinked" => CallError::Refused(Refusal {
            family: Family::Link,
            text: NOT_LINKED.to_owned(),
        }),
        "not_found" | "forbidden" => refused(Family::Place),
        "rate_limited" => {
            let pause = number(error, "retryAfter").map(Duration::from_secs);
            let longest = nanobot_channel_kit::call::MAX_RETRY_AFTER;
            CallError::RateLimited(pause.unwrap_or(DEFAULT_RETRY_AFTER).min(longest))
        }
        "too_large" => refused(Family::Size),
        "invalid" => refused(Family::Content),
        "failed" => CallError::Unreachable(format!("the bridge failed: {said}")),
        // `unknown_outcome`, and words of later versions.
        _ => CallError::Interrupted(format!("WhatsApp may have it: {said}")),
    }
}

/// Returns the failure that an `error` of version 1 means. It does not say how far it came.
pub(crate) fn from_version_1(error: &Value) -> CallError {
    let words = shortened(text(error, "error").trim(), TEXT_LIMIT);
    CallError::Interrupted(format!("the bridge failed: {words}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_have_the_right_meaning() {
        let table = [
            (
                "not_connected",
                "the platform cannot be reached: WhatsApp is not connected: no",
            ),
            (
                "unlinked",
                "the platform refuses the credentials: no device is linked to the account: run \
                 `nanobot channels login whatsapp`",
            ),
            ("not_found", "cannot deliver there: no"),
            ("forbidden", "cannot deliver there: no"),
            ("rate_limited", "rate limited for 7000 ms"),
            ("too_large", "too large for the platform: no"),
            ("invalid", "the platform refuses: no"),
            (
                "failed",
                "the platform cannot be reached: the bridge failed: no",
            ),
            (
                "unknown_outcome",
                "unknown whether the platform took it: WhatsApp may have it: no",
            ),
            (
                "of_tomorrow",
                "unknown whether the platform took it: WhatsApp may have it: no",
            ),
        ];
        for (code, expected) in table {
            let error = from_answer(&json!({"code": code, "error": "no", "retryAfter": 7}));
            assert_eq!(ChannelError::from(error).to_string(), expected);
        }
    }

    #[test]
    fn odd_errors_are_bounded() {
        let pause = |error: &Value| from_answer(error).retry_after();
        let limited = |after| json!({"code": "rate_limited", "retryAfter": after});
        assert_eq!(pause(&limited(json!("x"))), Some(DEFAULT_RETRY_AFTER));
        assert!(pause(&limited(json!(u64::MAX))) < Some(Duration::from_hours(24 * 366)));
        let long = "x".repeat(1000);
        let error = from_answer(&json!({"code": long, "error": long}));
        assert!(error.to_string().len() < 300);
        assert!(from_version_1(&json!(null)).is_ambiguous());
    }
}
