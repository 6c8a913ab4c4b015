//! Attempts are charged exactly once, and a refused one is never sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_provider::{
    ProviderError, SpendAttempt, SpendLedger, SpendVerdict, Spent, StreamEvent,
};
use nanobot_types::{FinishReason, SessionKey, Usage};

use super::script::{Play, Scripted, hello, refuse, router, text, unwatched, watched};

/// A ledger with room for a number of attempts.
#[derive(Debug, Default)]
struct Recorded {
    room: Mutex<usize>,
    charges: Mutex<Vec<(String, Spent)>>,
}

impl Recorded {
    fn with_room(room: usize) -> Arc<Self> {
        Arc::new(Self {
            room: Mutex::new(room),
            ..Self::default()
        })
    }

    fn charges(&self) -> Vec<(String, Spent)> {
        self.charges.lock().unwrap().clone()
    }
}

#[async_trait]
impl SpendLedger for Recorded {
    async fn admit(&self, _attempt: &SpendAttempt) -> SpendVerdict {
        let mut room = self.room.lock().unwrap();
        match room.checked_sub(1) {
            Some(left) => {
                *room = left;
                let notice = (left == 0).then(|| "the last one".to_owned());
                SpendVerdict::Admitted { notice }
            }
            None => SpendVerdict::Refused {
                explanation: "Nothing is left.".to_owned(),
            },
        }
    }

    fn charge(&self, attempt: &SpendAttempt, spent: Spent) {
        let mut charges = self.charges.lock().unwrap();
        charges.push((attempt.provider.to_string(), spent));
    }

    async fn flush(&self) {}

    async fn restart_session(&self, _session: &SessionKey) {}

    async fn report(&self, _session: &SessionKey) -> Option<String> {
        None
    }
}

fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage {
        prompt_tokens,
        completion_tokens,
        ..Usage::default()
    }
}

#[tokio::test(start_paused = true)]
async fn refused_attempt_sends_nothing_and_asks_no_other_candidate() {
    let (a, b) = (Scripted::new("a", []), Scripted::new("b", []));
    let ledger = Recorded::with_room(0);
    let response = router(&[&a, &b])
        .with_ledger(ledger.clone())
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(response.content.as_deref(), Some("Nothing is left."));
    assert_eq!(response.finish_reason, FinishReason::Error);
    assert_eq!((a.requests().len(), b.requests().len()), (0, 0));
    assert_eq!(ledger.charges(), []);
}

#[tokio::test(start_paused = true)]
async fn cap_ends_the_retries_of_a_failing_candidate() {
    let down = ProviderError::Network("down".to_owned());
    let a = Scripted::new("a", [refuse(down)]);
    let ledger = Recorded::with_room(1);
    let (context, shown) = watched();
    let response = router(&[&a])
        .with_ledger(ledger.clone())
        .chat_with_failover(hello(), &context)
        .await;
    assert_eq!(response.content.as_deref(), Some("Nothing is left."));
    assert_eq!(a.requests().len(), 1);
    assert_eq!(shown.notices()[0], "the last one");
    let refused = Spent {
        failed: true,
        ..Spent::default()
    };
    assert_eq!(ledger.charges(), [("a".to_owned(), refused)]);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_charged_as_reported_else_as_estimated() {
    let reported = Play::Events(vec![
        Ok(StreamEvent::Text("hi".to_owned())),
        Ok(StreamEvent::Usage(usage(70, 8))),
        Ok(StreamEvent::Finished(FinishReason::Stop)),
    ]);
    let cut = Play::Events(vec![Ok(StreamEvent::Reasoning("hmm, hmm".to_owned()))]);
    // "system" and "hello" are 11 bytes, "hi" and "hmm, hmm" 2 and 8.
    let table = [
        (reported, usage(70, 8), false, false),
        (text("hi"), usage(3, 1), true, false),
        (cut, usage(3, 2), true, true),
        (Play::Stall(vec![]), usage(3, 0), true, true),
    ];
    for (play, usage, is_estimate, failed) in table {
        let a = Scripted::new("a", [play.clone(), text("later")]);
        let ledger = Recorded::with_room(9);
        router(&[&a])
            .with_ledger(ledger.clone())
            .chat_with_failover(hello(), &unwatched())
            .await;
        let expected = Spent {
            usage,
            is_estimate,
            failed,
        };
        assert_eq!(ledger.charges()[0].1, expected, "{play:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_attempt_is_charged() {
    let a = Scripted::new(
        "a",
        [Play::Stall(vec![Ok(StreamEvent::Text("par".into()))])],
    );
    let ledger = Recorded::with_room(9);
    let router = router(&[&a]).with_ledger(ledger.clone());
    let context = unwatched();
    let call = router.chat_with_failover(hello(), &context);
    let stopped = tokio::time::timeout(Duration::from_secs(1), call).await;
    assert!(stopped.is_err());
    let expected = Spent {
        usage: usage(3, 1),
        is_estimate: true,
        failed: true,
    };
    assert_eq!(ledger.charges(), [("a".to_owned(), expected)]);
}
