//! State machine of a ledger entry: the state that follows each outcome.
//!
//! Decision: pure and shared, so that every bus changes the state of its entries in the same way,
//! however it stores them. It knows nothing of time: each bus keeps the delays itself.

use crate::{DISCARDED, DeliveryProgress, EntryState, Queue, SettleOutcome};

/// State of an entry and its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryProgress {
    /// Its state.
    pub state: EntryState,
    /// Reason for the state, if there is one.
    pub why: Option<String>,
    /// Number of attempts: deliveries that were begun, or that were settled as anything but put
    /// off.
    pub attempts: u32,
    /// Number of parts known to have reached the platform.
    pub parts_sent: u32,
    /// `true` if an earlier delivery began the effect and its outcome was not recorded.
    pub in_doubt: bool,
}

impl EntryProgress {
    /// Returns the state of a newly accepted entry.
    #[must_use]
    pub fn accepted() -> Self {
        Self {
            state: EntryState::Pending,
            why: None,
            attempts: 0,
            parts_sent: 0,
            in_doubt: false,
        }
    }

    /// Returns the progress for the next holder. A hand-out is not an attempt: an entry that waits
    /// with a consumer while another entry brings the process down is not to blame.
    #[must_use]
    pub fn hand_out(&self) -> DeliveryProgress {
        let attempt = self.attempts.saturating_add(1);
        DeliveryProgress {
            attempt,
            parts_sent: self.parts_sent,
            in_doubt: self.in_doubt,
        }
    }

    /// Takes the entry back from a consumer that ended without an outcome: an effect that was begun
    /// is in doubt.
    pub fn give_back(&mut self) {
        if self.state == EntryState::Sending {
            self.state = EntryState::Pending;
            self.in_doubt = true;
        }
    }

    /// Applies `outcome`; `attempt` is the attempt number given to the holder. Returns `false` and
    /// changes nothing if the entry is already settled.
    #[must_use]
    pub fn settle(&mut self, queue: Queue, outcome: &SettleOutcome, attempt: u32) -> bool {
        if !self.state.is_open() {
            return false;
        }
        self.attempts = match outcome {
            SettleOutcome::Begin => self.attempts.saturating_add(1),
            SettleOutcome::Extend(_) => self.attempts,
            SettleOutcome::PutOff(_) => self.attempts.min(attempt.saturating_sub(1)),
            _ => self.attempts.max(attempt),
        };
        match outcome {
            SettleOutcome::Begin => self.begin(queue),
            SettleOutcome::PartSent(part) => {
                self.begin(queue);
                self.parts_sent = self.parts_sent.max(part.saturating_add(1));
                self.in_doubt = false;
            }
            SettleOutcome::Extend(_) => {}
            SettleOutcome::RetryIn(_) | SettleOutcome::PutOff(_) => {
                self.state = EntryState::Pending;
            }
            SettleOutcome::Ack => self.end(queue, EntryState::Answered, EntryState::Sent, None),
            SettleOutcome::Uncertain(why) => {
                self.end(queue, EntryState::Failed, EntryState::Uncertain, Some(why));
            }
            SettleOutcome::Fail(why) => {
                self.end(queue, EntryState::Failed, EntryState::Failed, Some(why));
            }
            SettleOutcome::Discard(why) => {
                self.end(queue, EntryState::Dropped, EntryState::Expired, Some(why));
            }
        }
        true
    }

    /// Reopens the entry on a person's request. Returns `false` and changes nothing if it is open
    /// or done.
    #[must_use]
    pub fn retry(&mut self) -> bool {
        match self.state {
            EntryState::Uncertain
            | EntryState::Failed
            | EntryState::Dropped
            | EntryState::Expired => {
                *self = Self {
                    parts_sent: self.parts_sent,
                    ..Self::accepted()
                };
                true
            }
            EntryState::Pending | EntryState::Sending | EntryState::Answered | EntryState::Sent => {
                false
            }
        }
    }

    /// Discards the entry on a person's request. Returns `false` and changes nothing if it is done
    /// or already discarded.
    #[must_use]
    pub fn discard(&mut self, queue: Queue) -> bool {
        match self.state {
            EntryState::Pending
            | EntryState::Sending
            | EntryState::Uncertain
            | EntryState::Failed => {
                let why = DISCARDED.to_owned();
                self.end(queue, EntryState::Dropped, EntryState::Expired, Some(&why));
                true
            }
            EntryState::Answered | EntryState::Sent | EntryState::Dropped | EntryState::Expired => {
                false
            }
        }
    }

    fn begin(&mut self, queue: Queue) {
        if queue == Queue::Outbound {
            self.state = EntryState::Sending;
        }
    }

    fn end(
        &mut self,
        queue: Queue,
        inbound: EntryState,
        outbound: EntryState,
        why: Option<&String>,
    ) {
        self.state = match queue {
            Queue::Inbound => inbound,
            Queue::Outbound => outbound,
        };
        self.why = why.cloned();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_outcome_leads_to_its_state() {
        let why = || "because".to_owned();
        let later = Duration::from_secs(1);
        let table = [
            (
                SettleOutcome::Begin,
                EntryState::Pending,
                EntryState::Sending,
            ),
            (
                SettleOutcome::PartSent(0),
                EntryState::Pending,
                EntryState::Sending,
            ),
            (
                SettleOutcome::Extend(later),
                EntryState::Pending,
                EntryState::Pending,
            ),
            (
                SettleOutcome::RetryIn(later),
                EntryState::Pending,
                EntryState::Pending,
            ),
            (
                SettleOutcome::PutOff(later),
                EntryState::Pending,
                EntryState::Pending,
            ),
            (SettleOutcome::Ack, EntryState::Answered, EntryState::Sent),
            (
                SettleOutcome::Uncertain(why()),
                EntryState::Failed,
                EntryState::Uncertain,
            ),
            (
                SettleOutcome::Fail(why()),
                EntryState::Failed,
                EntryState::Failed,
            ),
            (
                SettleOutcome::Discard(why()),
                EntryState::Dropped,
                EntryState::Expired,
            ),
        ];
        for (outcome, inbound, outbound) in table {
            for (queue, expected) in [(Queue::Inbound, inbound), (Queue::Outbound, outbound)] {
                let mut progress = EntryProgress::accepted();
                assert!(progress.settle(queue, &outcome, 1), "{outcome:?}");
                assert_eq!(progress.state, expected, "{queue} {outcome:?}");
                if !expected.is_open() {
                    let settled = progress.clone();
                    assert!(
                        !progress.settle(queue, &SettleOutcome::Begin, 1),
                        "{queue} {outcome:?} is terminal"
                    );
                    assert_eq!(progress, settled);
                }
            }
        }
    }

    #[test]
    fn lost_delivery_is_in_doubt_until_a_part_is_sent() {
        let delivery = |attempt, parts_sent, in_doubt| DeliveryProgress {
            attempt,
            parts_sent,
            in_doubt,
        };
        let mut progress = EntryProgress::accepted();
        assert_eq!(progress.hand_out(), delivery(1, 0, false));
        progress.give_back();
        assert_eq!(progress.hand_out(), delivery(1, 0, false));
        assert!(progress.settle(Queue::Outbound, &SettleOutcome::Begin, 1));
        progress.give_back();
        assert_eq!(progress.hand_out(), delivery(2, 0, true));
        assert!(progress.settle(Queue::Outbound, &SettleOutcome::Begin, 2));
        assert!(progress.settle(Queue::Outbound, &SettleOutcome::RetryIn(Duration::ZERO), 2));
        assert_eq!(progress.hand_out(), delivery(3, 0, true));
        assert!(progress.settle(Queue::Outbound, &SettleOutcome::PartSent(0), 3));
        assert!(progress.settle(Queue::Outbound, &SettleOutcome::RetryIn(Duration::ZERO), 3));
        assert_eq!(progress.hand_out(), delivery(4, 1, false));
    }

    #[test]
    fn begun_or_settled_deliveries_count_as_attempts() {
        let later = Duration::from_secs(1);
        let table: [(&[SettleOutcome], u32); 8] = [
            (&[], 2),
            (&[SettleOutcome::Extend(later)], 2),
            (&[SettleOutcome::PutOff(later)], 2),
            (&[SettleOutcome::Begin, SettleOutcome::PutOff(later)], 2),
            (&[SettleOutcome::Begin], 3),
            (&[SettleOutcome::RetryIn(later)], 3),
            (
                &[
                    SettleOutcome::Begin,
                    SettleOutcome::Extend(later),
                    SettleOutcome::RetryIn(later),
                ],
                3,
            ),
            (
                &[
                    SettleOutcome::Begin,
                    SettleOutcome::Begin,
                    SettleOutcome::Ack,
                ],
                4,
            ),
        ];
        for (outcomes, attempts) in table {
            let mut progress = EntryProgress {
                attempts: 2,
                ..EntryProgress::accepted()
            };
            let DeliveryProgress { attempt, .. } = progress.hand_out();
            for outcome in outcomes {
                assert!(
                    progress.settle(Queue::Inbound, outcome, attempt),
                    "{outcomes:?}"
                );
            }
            assert_eq!(progress.attempts, attempts, "{outcomes:?}");
        }
    }

    #[test]
    fn retry_reopens_failed_entries_only() {
        for state in EntryState::ALL {
            let mut progress = EntryProgress {
                state,
                why: Some("because".into()),
                attempts: 4,
                parts_sent: 2,
                in_doubt: true,
            };
            let before = progress.clone();
            let reopened = progress.retry();
            let expected = if reopened {
                EntryProgress {
                    parts_sent: 2,
                    ..EntryProgress::accepted()
                }
            } else {
                before
            };
            assert_eq!(progress, expected, "{state}");
            let open_or_done =
                state.is_open() || matches!(state, EntryState::Answered | EntryState::Sent);
            assert_eq!(reopened, !open_or_done, "{state}");
        }
    }

    #[test]
    fn discard_accepts_open_uncertain_and_failed_entries() {
        for state in EntryState::ALL {
            let mut progress = EntryProgress {
                state,
                ..EntryProgress::accepted()
            };
            let given_up = progress.discard(Queue::Outbound);
            let expected = if given_up {
                (EntryState::Expired, Some(DISCARDED))
            } else {
                (state, None)
            };
            assert_eq!((progress.state, progress.why.as_deref()), expected);
            let may_be =
                state.is_open() || matches!(state, EntryState::Uncertain | EntryState::Failed);
            assert_eq!(given_up, may_be, "{state}");
        }
    }

    #[test]
    fn state_round_trips_through_its_name() {
        for state in EntryState::ALL {
            assert_eq!(EntryState::parse(state.as_str()), Some(state));
        }
        assert_eq!(EntryState::parse("lost"), None);
    }
}
