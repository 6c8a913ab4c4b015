//! Failures of a call to a platform's API, and their meaning to a channel.
//!
//! Decision: one enum for every platform. Transport failures are the same everywhere, so a platform
//! brings only the words of its own refusals ([`Refusal`]).

use std::fmt;
use std::time::Duration;

use nanobot_channel::ChannelError;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// The pause after "too many requests" without a time.
pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);
/// The longest pause that is believed: clocks cannot add just any number.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(24 * 365);

/// A refusal in the platform's own terms. It is shown in errors and logs, without secrets.
pub trait Refusal: fmt::Display + fmt::Debug + Send + Sync + 'static {
    /// Its meaning to a channel.
    fn to_channel_error(&self) -> ChannelError;
}

/// The failure of a call. Texts hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError<R> {
    /// The platform refused.
    #[error("{0}")]
    Refused(R),
    /// The platform asks for a pause.
    #[error("too many requests; again in {} ms", .0.as_millis())]
    RateLimited(Duration),
    /// The request did not arrive, or something between here and the platform answered.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have arrived, but there is no answer.
    #[error("{0}")]
    Interrupted(String),
    /// There is an answer, but none of the platform's form.
    #[error("the answer cannot be understood: {0}")]
    Misunderstood(String),
    /// There is no client to make calls with.
    #[error("no connection can be made: {0}")]
    Setup(String),
}

impl<R: Refusal> CallError<R> {
    /// `true` if the platform refused, and the refusal is of this kind.
    pub fn is(&self, kind: impl FnOnce(&R) -> bool) -> bool {
        matches!(self, Self::Refused(refusal) if kind(refusal))
    }

    /// The pause that the platform asks for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(pause) => Some(*pause),
            _ => None,
        }
    }

    /// `true` if the call may have had its effect all the same.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::Misunderstood(_))
    }

    /// `true` if the file of an upload was refused, so that the rest of its message can still go.
    #[must_use]
    pub fn refuses_content(&self) -> bool {
        self.is(|refusal| {
            matches!(
                refusal.to_channel_error(),
                ChannelError::Refused(_) | ChannelError::TooLarge(_)
            )
        })
    }

    /// Converts the failure of a call that may be repeated without harm: not
    /// [`ChannelError::Ambiguous`].
    #[must_use]
    pub fn repeatable(self) -> ChannelError {
        crate::repeatable(self.into())
    }

    /// Returns the failure of a call that may be repeated without harm: not
    /// [ambiguous](Self::is_ambiguous).
    #[must_use]
    pub fn unambiguous(self) -> Self {
        if self.is_ambiguous() {
            Self::Unreachable(self.to_string())
        } else {
            self
        }
    }
}

impl<R: Refusal> From<CallError<R>> for ChannelError {
    fn from(error: CallError<R>) -> Self {
        match &error {
            CallError::Refused(refusal) => refusal.to_channel_error(),
            CallError::RateLimited(pause) => Self::RateLimited {
                retry_after: *pause,
            },
            CallError::Unreachable(_) | CallError::Setup(_) => Self::Unavailable(error.to_string()),
            CallError::Interrupted(_) | CallError::Misunderstood(_) => {
                Self::Ambiguous(error.to_string())
            }
        }
    }
}

/// Converts a pause in seconds; `None` for what is no number of seconds, at most
/// [`MAX_RETRY_AFTER`].
#[must_use]
pub fn pause_from_secs(seconds: f64) -> Option<Duration> {
    let pause = Duration::try_from_secs_f64(seconds).ok()?;
    Some(pause.min(MAX_RETRY_AFTER))
}

/// Reads the pause of the header `Retry-After`, in whole or broken seconds.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER)),
        Err(_) => pause_from_secs(value.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use tokio::time::Instant;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Word(&'static str);

    impl fmt::Display for Word {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Refusal for Word {
        fn to_channel_error(&self) -> ChannelError {
            match self.0 {
                "long" => ChannelError::TooLarge(self.to_string()),
                "gone" => ChannelError::NotFound(self.to_string()),
                _ => ChannelError::Refused(self.to_string()),
            }
        }
    }

    #[test]
    fn failures_map_to_channel_errors() {
        let table = [
            (
                CallError::Refused(Word("gone")),
                "cannot deliver there: gone",
            ),
            (
                CallError::RateLimited(Duration::from_millis(1500)),
                "rate limited for 1500 ms",
            ),
            (
                CallError::Unreachable("no route".into()),
                "the platform cannot be reached: no route",
            ),
            (
                CallError::Interrupted("reset".into()),
                "unknown whether the platform took it: reset",
            ),
            (
                CallError::Misunderstood("x".into()),
                "unknown whether the platform took it: the answer cannot be understood: x",
            ),
            (
                CallError::Setup("no roots".into()),
                "the platform cannot be reached: no connection can be made: no roots",
            ),
        ];
        for (error, text) in table {
            assert_eq!(ChannelError::from(error).to_string(), text);
        }
        let interrupted = CallError::<Word>::Interrupted("reset".into());
        assert_eq!(
            interrupted.clone().repeatable().to_string(),
            "the platform cannot be reached: reset"
        );
        assert_eq!(
            interrupted.unambiguous(),
            CallError::Unreachable("reset".into())
        );
    }

    #[test]
    fn refuses_content_is_true_only_for_content_refusals() {
        let table = [
            (CallError::Refused(Word("long")), true),
            (CallError::Refused(Word("no")), true),
            (CallError::Refused(Word("gone")), false),
            (CallError::Unreachable(String::new()), false),
        ];
        for (error, expected) in table {
            assert_eq!(error.refuses_content(), expected, "{error:?}");
        }
    }

    #[test]
    fn retry_after_is_bounded_and_parsed_leniently() {
        let table = [
            ("3", Some(Duration::from_secs(3))),
            ("1.5", Some(Duration::from_millis(1500))),
            (" 0 ", Some(Duration::ZERO)),
            ("1e18", Some(MAX_RETRY_AFTER)),
            ("18446744073709551615", Some(MAX_RETRY_AFTER)),
            ("18446744073709551616", None),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("1e308", None),
            ("", None),
        ];
        for (value, expected) in table {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]);
            let pause = retry_after(&headers);
            assert_eq!(pause, expected, "{value}");
            assert!(
                Instant::now()
                    .checked_add(pause.unwrap_or_default())
                    .is_some()
            );
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
        assert_eq!(pause_from_secs(u64::MAX as f64), None);
    }
}
