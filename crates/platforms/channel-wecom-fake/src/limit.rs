//! Limits of messages for each chat, which apply on demand.

use std::collections::BTreeMap;

use crate::api::{ApiError, TOO_MANY_MESSAGES};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;
/// Messages of a chat in a minute.
const MINUTE_LIMIT: usize = 30;
/// Messages of a chat in an hour.
const HOUR_LIMIT: usize = 1000;

/// Messages of each chat. Each frame of a stream counts, as users of WeCom have reported.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) apply: bool,
    /// Times in milliseconds of the fake's clock.
    sent: BTreeMap<String, Vec<i64>>,
}

impl Limits {
    /// Counts a message at this time, and refuses one too many.
    pub(crate) fn count(&mut self, chat: &str, now: i64) -> Result<(), ApiError> {
        let sent = self.sent.entry(chat.to_owned()).or_default();
        sent.retain(|at| now - at < HOUR);
        let minute = sent.iter().filter(|at| now - **at < MINUTE).count();
        if self.apply && (minute >= MINUTE_LIMIT || sent.len() >= HOUR_LIMIT) {
            return Err(ApiError::new(TOO_MANY_MESSAGES));
        }
        sent.push(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_take_30_messages_a_minute_and_1000_an_hour() {
        let mut limits = Limits {
            apply: true,
            ..Limits::default()
        };
        let taken = |limits: &mut Limits, chat: &str, now| {
            (0..40).filter(|_| limits.count(chat, now).is_ok()).count()
        };
        assert_eq!(taken(&mut limits, "ann", 0), 30);
        assert_eq!(taken(&mut limits, "ben", 0), 30);
        assert_eq!(taken(&mut limits, "ann", MINUTE - 1), 0);
        let hour: usize = (1..60)
            .map(|minute| taken(&mut limits, "ann", minute * MINUTE))
            .sum();
        assert_eq!(hour, 970);
        assert_eq!(taken(&mut limits, "ann", HOUR), 30);
    }
}
