//! The heartbeat of the long connection: a command and its answer.
//!
//! Decision: a heartbeat counts as unanswered only if the connection was read after it. The answers
//! to others may not be read yet.

use std::time::Duration;

use tokio::time::Instant;

/// Interval of heartbeats.
const INTERVAL: Duration = Duration::from_secs(30);
/// Most heartbeats without an answer.
const MAX_UNANSWERED: u32 = 2;
/// Beginning of the `req_id` of heartbeats.
const PREFIX: &str = "ping_";

/// The state of the heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// Time of the next heartbeat.
    pub(crate) next: Instant,
    unanswered: u32,
    count: u64,
}

impl Heartbeat {
    /// Begins after the subscription.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            next: now + INTERVAL,
            unanswered: 0,
            count: 0,
        }
    }

    /// Returns the `req_id` of the heartbeat that is due; `None` if the connection is dead.
    pub(crate) fn beat(&mut self, now: Instant) -> Option<String> {
        if self.unanswered >= MAX_UNANSWERED {
            return None;
        }
        self.next = now + INTERVAL;
        self.unanswered += 1;
        self.count += 1;
        Some(format!("{PREFIX}{}", self.count))
    }

    /// `true` if `req_id` is one of a heartbeat.
    pub(crate) fn is_one(req_id: &str) -> bool {
        req_id.starts_with(PREFIX)
    }

    /// Forgets the missing answers: one came, or none could be read.
    pub(crate) fn reset_count(&mut self) {
        self.unanswered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_heartbeat_needs_an_answer_to_an_earlier_one() {
        let mut now = Instant::now();
        let mut heartbeat = Heartbeat::new(now);
        let mut beat = |heartbeat: &mut Heartbeat| {
            assert_eq!(heartbeat.next, now + INTERVAL);
            now += INTERVAL;
            heartbeat.beat(now)
        };
        let first = beat(&mut heartbeat).unwrap();
        assert!(Heartbeat::is_one(&first) && !Heartbeat::is_one("aibot_send_msg_1"));
        assert!(beat(&mut heartbeat).is_some());
        heartbeat.reset_count();
        assert!(beat(&mut heartbeat).is_some() && beat(&mut heartbeat).is_some());
        assert_eq!(beat(&mut heartbeat), None);
    }
}
