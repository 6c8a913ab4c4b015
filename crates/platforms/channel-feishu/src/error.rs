//! Feishu's refusals and their meaning to a channel.
//!
//! Feishu numbers every refusal, so this is the one place that knows the numbers. A refused card
//! has a second number in its text (`ErrCode: 11310`).

use std::fmt;
use std::ops::RangeInclusive;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;

/// Refusals of the app's credentials or of the whole app.
const APP_CODES: &[i64] = &[
    403,
    514,
    10003,
    10012,
    10014,
    10015,
    99_991_543,
    99_991_662,
    99_991_673,
    1_000_040_344,
];
/// Refusals of a token: it is unknown, of another kind, or has expired.
const TOKEN_CODES: &[i64] = &[
    99_991_661, 99_991_663, 99_991_664, 99_991_665, 99_991_668, 99_991_671, 99_991_677,
];
/// The connections of the app are exhausted.
const TOO_MANY_CONNECTIONS: i64 = 1_000_040_350;
/// Too many calls: of the app, to a chat, of cards.
const RATE_CODES: &[i64] = &[11_232, 11_233, 11_247, 230_020, 99_991_400];
/// Refusals that a later try may not meet; Feishu has surely done nothing.
const TRANSIENT_CODES: &[i64] = &[1, 230_049, 1_000_040_343];
/// Failures in the middle of the work: some of it may be done.
const AMBIGUOUS_CODES: &[i64] = &[1500, 2200, 5000, 300_000];
/// Refusals of the place, not of the message.
const PLACE_CODES: &[i64] = &[
    230_002, 230_006, 230_013, 230_018, 230_029, 230_034, 230_035, 230_038, 230_053, 232_009,
];
/// Refusals of the message that is answered: recalled, deleted, not there, or without topics.
const ANSWERED_CODES: &[i64] = &[
    230_003, 230_011, 230_019, 230_050, 230_054, 230_071, 230_110, 230_111, 231_003, 99_992_354,
];
/// Refusals of a length.
const SIZE_CODES: &[i64] = &[TOO_LONG, 234_006, 200_860];
/// Refusals of an upload as an image: its format and its resolution.
const IMAGE_CODES: &[i64] = &[234_011, 234_039];
/// Refusals of a card: its structure, an unknown or expired card, an ended stream.
const CARD_CODES: [RangeInclusive<i64>; 2] = [200_000..=200_999, 300_000..=300_999];
/// A card or a post is too long; a text may be longer.
const TOO_LONG: i64 = 230_025;
/// The text of a card cannot grow any more: it was ended, or took too long.
const STREAM_CODES: &[i64] = &[200_850, 300_309];
/// Scopes that the app lacks.
const SCOPE_CODES: &[i64] = &[230_027, 99_991_672, 99_991_679];
/// A card with too many tables.
const TABLE_CODE: i64 = 11_310;
/// A card that cannot be created; the reason is in its text.
const CARD_CREATION_CODE: i64 = 230_099;

/// The failure of a call.
pub(crate) type CallError = nanobot_channel_kit::CallError<Refusal>;

/// Refusals in Feishu's own terms.
pub(crate) type Refusal = FeishuRefusal;

/// A refusal with Feishu's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeishuRefusal {
    pub(crate) code: i64,
    /// The number in the text.
    inner: Option<i64>,
    /// In Feishu's words.
    text: String,
}

impl fmt::Display for FeishuRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.text, self.code)
    }
}

impl FeishuRefusal {
    fn is_one_of(&self, codes: &[i64]) -> bool {
        codes.contains(&self.code)
    }

    /// `true` if the token was refused, so that another one may be accepted.
    pub(crate) fn is_about_the_token(&self) -> bool {
        self.is_one_of(TOKEN_CODES)
    }

    /// `true` if a card was refused because of its tables.
    pub(crate) fn is_about_tables(&self) -> bool {
        self.code == TABLE_CODE || self.inner == Some(TABLE_CODE)
    }

    /// `true` if a card was refused, so that its text may still be accepted.
    pub(crate) fn is_about_the_card(&self) -> bool {
        self.inner.is_some()
            || self.code == CARD_CREATION_CODE
            || CARD_CODES.iter().any(|codes| codes.contains(&self.code))
            || self.code == TOO_LONG
    }

    /// `true` if the text of a card does not grow any more.
    pub(crate) fn is_about_the_stream(&self) -> bool {
        self.is_one_of(STREAM_CODES)
    }

    /// `true` if the message that is answered cannot be answered (any more).
    pub(crate) fn is_about_the_answered(&self) -> bool {
        self.is_one_of(ANSWERED_CODES)
    }

    /// `true` if a file may be accepted that was refused as an image.
    pub(crate) fn is_about_the_image(&self) -> bool {
        self.is_one_of(IMAGE_CODES) || self.is_one_of(SIZE_CODES)
    }

    /// `true` if the app lacks a scope.
    pub(crate) fn is_about_scopes(&self) -> bool {
        self.is_one_of(SCOPE_CODES)
    }
}

impl nanobot_channel_kit::Refusal for FeishuRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        if self.is_one_of(APP_CODES) || self.is_about_the_token() {
            ChannelError::Auth(format!("{text}; check appId, appSecret and domain"))
        } else if self.code == TOO_MANY_CONNECTIONS {
            ChannelError::Conflict(format!("{text}; stop the other programs of this app"))
        } else if self.is_one_of(PLACE_CODES) || self.is_about_the_answered() {
            ChannelError::NotFound(text)
        } else if self.is_one_of(SIZE_CODES) {
            ChannelError::TooLarge(text)
        } else {
            ChannelError::Refused(text)
        }
    }
}

/// Returns the failure for Feishu's number and text.
pub(crate) fn from_code(code: i64, text: &str) -> CallError {
    if RATE_CODES.contains(&code) {
        return CallError::RateLimited(DEFAULT_RETRY_AFTER);
    }
    let text = match text.trim() {
        "" => "no reason was given",
        text => text,
    };
    if TRANSIENT_CODES.contains(&code) {
        return CallError::Unreachable(format!("Feishu cannot do it now: {text} (code {code})"));
    }
    if AMBIGUOUS_CODES.contains(&code) {
        let why = format!("Feishu failed in the middle of it: {text} (code {code})");
        return CallError::Interrupted(why);
    }
    CallError::Refused(FeishuRefusal {
        code,
        inner: inner_code(text),
        text: text.chars().take(500).collect(),
    })
}

/// Returns the number in the text of a refusal.
fn inner_code(text: &str) -> Option<i64> {
    let (_, after) = text.split_once("ErrCode:")?;
    let digits: String = after
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
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
        let table = [
            (
                10014,
                "app secret invalid",
                "the platform refuses the credentials: app secret invalid (code 10014); check appId, appSecret and \
                 domain",
            ),
            (
                99_991_663,
                "Invalid access token",
                "the platform refuses the credentials: Invalid access token (code 99991663); check appId, appSecret \
                 and domain",
            ),
            (
                1_000_040_350,
                "exceed connection limit",
                "another program receives with these credentials: exceed connection limit (code 1000040350); stop the \
                 other programs of this app",
            ),
            (
                230_002,
                "Bot/User can NOT be out of the chat",
                "cannot deliver there: Bot/User can NOT be out of the chat (code 230002)",
            ),
            (
                230_011,
                "recalled",
                "cannot deliver there: recalled (code 230011)",
            ),
            (
                230_025,
                "too long",
                "too large for the platform: too long (code 230025)",
            ),
            (
                230_001,
                " ",
                "the platform refuses: no reason was given (code 230001)",
            ),
            (230_020, "slow down", "rate limited for 5000 ms"),
            (99_991_400, "slow down", "rate limited for 5000 ms"),
            (
                1,
                "busy",
                "the platform cannot be reached: Feishu cannot do it now: busy (code 1)",
            ),
            (
                2200,
                "oops",
                "unknown whether the platform took it: Feishu failed in the middle of it: oops (code 2200)",
            ),
        ];
        for (code, text, expected) in table {
            assert_eq!(
                ChannelError::from(from_code(code, text)).to_string(),
                expected
            );
        }
    }

    #[test]
    fn number_in_the_text_names_the_problem_of_a_card() {
        let text = "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit;";
        let error = from_code(230_099, text);
        assert!(error.is(Refusal::is_about_tables) && error.is(Refusal::is_about_the_card));
        let other = from_code(
            230_099,
            "Failed to create card content, ext=ErrCode: 200621;",
        );
        assert!(!other.is(Refusal::is_about_tables) && other.is(Refusal::is_about_the_card));
        assert!(!from_code(230_001, "x").is(Refusal::is_about_the_card));
        assert_eq!(inner_code("ErrCode: 99999999999999999999"), None);
    }

    #[test]
    fn refusal_of_a_required_call_is_permanent() {
        assert!(required_call_error(from_code(99_991_672, "scope")).is_permanent());
        assert!(required_call_error(from_code(10014, "secret")).is_permanent());
        let busy = required_call_error(from_code(2200, "oops"));
        assert!(matches!(busy, ChannelError::Unavailable(_)), "{busy}");
        let full = required_call_error(from_code(1_000_040_350, "full"));
        assert!(matches!(full, ChannelError::Conflict(_)), "{full}");
    }
}
