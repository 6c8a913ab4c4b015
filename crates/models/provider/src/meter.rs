//! Counts model requests and their tokens, by purpose and by session.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_types::{SessionKey, Usage};

/// Maximum number of sessions that are counted separately. Further ones count in the total only.
const MAX_SESSIONS: usize = 1024;

/// The reason for a model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallPurpose {
    /// A turn of a conversation.
    #[default]
    Turn,
    /// A summary of old messages.
    Summary,
    /// A turn of a subagent.
    Subagent,
    /// A decision of the program itself: whether there is something to do, or worth reporting.
    Judgement,
}

impl CallPurpose {
    /// All purposes, in the order in which they are reported.
    pub const ALL: [Self; 4] = [Self::Turn, Self::Summary, Self::Subagent, Self::Judgement];
}

/// The account to which a call is charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallAccount {
    /// The reason for the call.
    pub purpose: CallPurpose,
    /// The session that it is made for; of a subagent, the session that started it. `None` counts in
    /// the total only.
    pub session: Option<SessionKey>,
    /// The scheduled job that it is made for, or the heartbeat, by the name of its session.
    pub job: Option<SessionKey>,
    /// `true` if a person wrote the message of the turn, and can be asked before it begins.
    pub is_attended: bool,
}

/// Requests and their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumption {
    /// Number of requests, with those that failed and were repeated.
    pub requests: u64,
    /// Tokens that vendors have reported, also for answers that broke off.
    pub tokens: Usage,
}

impl AddAssign for Consumption {
    fn add_assign(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.tokens += other.tokens;
    }
}

/// Consumption by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumptionByPurpose([Consumption; CallPurpose::ALL.len()]);

impl ConsumptionByPurpose {
    /// Returns the consumption for a purpose.
    #[must_use]
    pub fn of(&self, purpose: CallPurpose) -> Consumption {
        let purposes = CallPurpose::ALL.into_iter().zip(self.0);
        purposes
            .filter(|(counted, _)| *counted == purpose)
            .map(|(_, consumption)| consumption)
            .next()
            .unwrap_or_default()
    }

    /// Returns the sum over all purposes.
    #[must_use]
    pub fn sum(&self) -> Consumption {
        let mut sum = Consumption::default();
        for consumption in self.0 {
            sum += consumption;
        }
        sum
    }

    /// Adds to the consumption for a purpose.
    pub fn add(&mut self, purpose: CallPurpose, more: Consumption) {
        let purposes = CallPurpose::ALL.into_iter().zip(&mut self.0);
        for (_, consumption) in purposes.filter(|(counted, _)| *counted == purpose) {
            *consumption += more;
        }
    }
}

/// Consumption since the program started. A router counts every attempt of its calls here.
#[derive(Debug, Default)]
pub struct UsageMeter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    total: ConsumptionByPurpose,
    by_session: HashMap<SessionKey, ConsumptionByPurpose>,
}

impl UsageMeter {
    /// Counts a request that is about to be sent.
    pub(crate) fn count_request(&self, account: &CallAccount) {
        self.add(
            account,
            Consumption {
                requests: 1,
                tokens: Usage::default(),
            },
        );
    }

    /// Counts the tokens of a request that ended.
    pub(crate) fn count_tokens(&self, account: &CallAccount, tokens: Usage) {
        self.add(
            account,
            Consumption {
                requests: 0,
                tokens,
            },
        );
    }

    fn add(&self, account: &CallAccount, more: Consumption) {
        let mut counts = self.lock();
        counts.total.add(account.purpose, more);
        let Some(session) = &account.session else {
            return;
        };
        if counts.by_session.len() < MAX_SESSIONS || counts.by_session.contains_key(session) {
            let counted = counts.by_session.entry(session.clone()).or_default();
            counted.add(account.purpose, more);
        }
    }

    /// Returns the consumption of all sessions.
    #[must_use]
    pub fn total(&self) -> ConsumptionByPurpose {
        self.lock().total
    }

    /// Returns the consumption of a session.
    #[must_use]
    pub fn of_session(&self, session: &SessionKey) -> ConsumptionByPurpose {
        self.lock()
            .by_session
            .get(session)
            .copied()
            .unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(prompt_tokens: u64) -> Usage {
        Usage {
            prompt_tokens,
            ..Usage::default()
        }
    }

    fn account(purpose: CallPurpose, session: Option<&str>) -> CallAccount {
        CallAccount {
            purpose,
            session: session.map(SessionKey::from),
            ..CallAccount::default()
        }
    }

    #[test]
    fn consumption_is_counted_by_purpose_and_session() {
        let meter = UsageMeter::default();
        for (purpose, session, prompt) in [
            (CallPurpose::Turn, Some("a"), 100),
            (CallPurpose::Summary, Some("a"), 30),
            (CallPurpose::Turn, Some("b"), 7),
            (CallPurpose::Judgement, None, 1),
        ] {
            let account = account(purpose, session);
            meter.count_request(&account);
            meter.count_tokens(&account, tokens(prompt));
        }
        let session = meter.of_session(&"a".into());
        assert_eq!(session.of(CallPurpose::Turn).tokens, tokens(100));
        assert_eq!(session.sum().tokens, tokens(130));
        assert_eq!(session.sum().requests, 2);
        let total = meter.total();
        assert_eq!(total.of(CallPurpose::Turn).requests, 2);
        assert_eq!(total.of(CallPurpose::Judgement).tokens, tokens(1));
        assert_eq!(total.sum().tokens, tokens(138));
    }

    #[test]
    fn sessions_beyond_the_limit_count_in_the_total() {
        let meter = UsageMeter::default();
        for index in 0..=MAX_SESSIONS {
            meter.count_request(&account(CallPurpose::Turn, Some(&format!("s{index}"))));
        }
        assert_eq!(meter.of_session(&"s0".into()).sum().requests, 1);
        let beyond = format!("s{MAX_SESSIONS}");
        assert_eq!(meter.of_session(&beyond.as_str().into()).sum().requests, 0);
        assert_eq!(
            meter.total().sum().requests,
            u64::try_from(MAX_SESSIONS).unwrap() + 1
        );
    }
}
