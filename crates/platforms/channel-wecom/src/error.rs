//! WeCom's refusals and their meaning to a channel.
//!
//! WeCom names a refusal by a number. Those of the long connection begin with 846 and 853; others
//! are of its list for all APIs. This is the one place that knows them.

use std::fmt;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in WeCom's own terms.
pub(crate) type Refusal = WeComRefusal;

/// The numbers of each family.
const FAMILIES: &[(Family, &[i64])] = &[
    (Family::App, &[853_000, 40_001, 40_013, 40_082, 60_020]),
    (Family::Subscription, &[846_609]),
    (Family::Callback, &[846_605, 846_608]),
    (Family::Rate, &[846_607, 45_009, 45_033]),
    (
        Family::Place,
        &[
            93_006, 40_003, 60_111, 86_001, 86_201, 86_003, 86_004, 86_008,
        ],
    ),
    (
        Family::Size,
        &[40_006, 40_009, 40_010, 40_011, 45_001, 45_002, 45_008],
    ),
    (Family::Busy, &[-1]),
];
/// Longest text of a refusal that is kept, in characters.
const TEXT_LIMIT: usize = 200;

/// The meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// The credentials, or the whole bot.
    App,
    /// The connection is not subscribed any more.
    Subscription,
    /// A callback or a stream that takes no reply any more.
    Callback,
    /// Too many messages.
    Rate,
    /// The chat or the person.
    Place,
    /// A length.
    Size,
    /// Nothing was done, and a later try may succeed.
    Busy,
    /// The content.
    Content,
}

/// A refusal with WeCom's number for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeComRefusal {
    family: Family,
    code: i64,
    /// In WeCom's words.
    text: String,
}

impl fmt::Display for WeComRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.text, self.code)
    }
}

impl WeComRefusal {
    /// `true` if a file may be accepted that was refused as an image or a video.
    pub(crate) fn is_about_the_content(&self) -> bool {
        matches!(self.family, Family::Content | Family::Size)
    }

    /// Returns the refusal with another text.
    pub(crate) fn with_text(self, change: impl FnOnce(&str) -> String) -> Self {
        Self {
            text: change(&self.text),
            ..self
        }
    }

    /// `true` if the credentials are at fault, not the call.
    pub(crate) fn is_about_the_app(&self) -> bool {
        self.family == Family::App
    }
}

impl nanobot_channel_kit::Refusal for WeComRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.family {
            Family::App => ChannelError::Auth(format!("{text}; check botId and secret")),
            Family::Place => ChannelError::NotFound(text),
            Family::Size => ChannelError::TooLarge(text),
            Family::Callback
            | Family::Content
            | Family::Rate
            | Family::Subscription
            | Family::Busy => ChannelError::Refused(text),
        }
    }
}

/// `true` if a code says that the connection is not subscribed any more.
pub(crate) fn ends_subscription(code: i64) -> bool {
    family(code) == Family::Subscription
}

fn family(code: i64) -> Family {
    let known = FAMILIES.iter().find(|(_, codes)| codes.contains(&code));
    known.map_or(Family::Content, |(family, _)| *family)
}

/// Returns the failure for WeCom's code and text.
pub(crate) fn from_code(code: i64, text: &str) -> CallError {
    let family = family(code);
    // What follows is a number for WeCom's support and the address of this program.
    let text = text.split(", hint:").next().unwrap_or_default();
    let text: String = text.chars().take(TEXT_LIMIT).collect();
    let refusal = Refusal { family, code, text };
    match family {
        Family::Rate => CallError::RateLimited(DEFAULT_RETRY_AFTER),
        Family::Busy => CallError::Unreachable(format!("WeCom cannot do it now: {refusal}")),
        Family::Subscription => {
            CallError::Unreachable(format!("the connection has no subscription: {refusal}"))
        }
        _ => CallError::Refused(refusal),
    }
}

/// Returns the error of a subscription: any refusal needs a person.
pub(crate) fn subscription_error(error: CallError) -> ChannelError {
    match error {
        CallError::Refused(refusal) => {
            ChannelError::Auth(format!("{refusal}; check botId and secret"))
        }
        error => error.repeatable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_right_meaning() {
        let auth = "the platform refuses the credentials: no (code CODE); check botId and secret";
        let place = "cannot deliver there: no (code CODE)";
        let size = "too large for the platform: no (code CODE)";
        let rate = "rate limited for 5000 ms";
        let busy = "the platform cannot be reached: WeCom cannot do it now: no (code CODE)";
        let lost =
            "the platform cannot be reached: the connection has no subscription: no (code CODE)";
        let refused = "the platform refuses: no (code CODE)";
        let table = [
            (853_000, auth),
            (40_001, auth),
            (846_609, lost),
            (846_607, rate),
            (45_009, rate),
            (93_006, place),
            (60_111, place),
            (45_002, size),
            (40_006, size),
            (-1, busy),
            (846_605, refused),
            (846_608, refused),
            (40_058, refused),
            (1, refused),
        ];
        for (code, expected) in table {
            let error = from_code(code, "no, hint: [1], from ip: 192.0.2.1");
            let error = ChannelError::from(error);
            assert_eq!(
                error.to_string(),
                expected.replace("CODE", &code.to_string())
            );
        }
    }

    #[test]
    fn refused_subscription_is_permanent() {
        for code in [853_000, 40_058, 1] {
            let error = subscription_error(from_code(code, "no"));
            assert!(matches!(error, ChannelError::Auth(_)), "{error}");
        }
        let busy = subscription_error(from_code(-1, "busy"));
        assert!(matches!(busy, ChannelError::Unavailable(_)), "{busy}");
        let silent = subscription_error(CallError::Interrupted("silence".to_owned()));
        assert!(matches!(silent, ChannelError::Unavailable(_)), "{silent}");
    }

    #[test]
    fn long_text_is_shortened() {
        let error = from_code(1, &"x".repeat(1000));
        assert_eq!(error.to_string().len(), TEXT_LIMIT + " (code 1)".len());
    }
}
