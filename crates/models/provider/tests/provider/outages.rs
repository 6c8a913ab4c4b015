//! A day of outages on a paused clock: most calls end with the right answer, all of them end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use nanobot_provider::{
    Candidate, ChatRequest, ChatStream, Generation, Provider, ProviderError, ProviderRouter,
    RetryPolicy, StreamEvent,
};
use nanobot_types::{ChatMessage, FinishReason, ProviderName};

use super::script::{request, watched};

/// Time between two questions.
const PAUSE: Duration = Duration::from_secs(30);

/// Questions of a day.
const QUESTIONS: u64 = 24 * 3600 / 30;

/// A provider of which a share of the answers fails, in a sequence that its seed decides.
#[derive(Debug)]
struct Flaky {
    name: ProviderName,
    state: AtomicU64,
}

impl Flaky {
    fn candidate(name: &str, seed: u64) -> Candidate {
        Candidate {
            provider: Arc::new(Self {
                name: name.into(),
                state: AtomicU64::new(seed),
            }),
            model: "m".into(),
            generation: Generation::default(),
        }
    }

    /// Returns the next number below 100, by a linear congruential generator with the constants of
    /// Knuth's MMIX.
    fn percent(&self) -> u64 {
        let next = |state: u64| {
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407)
        };
        let before = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                Some(next(state))
            });
        (next(before.unwrap()) >> 33) % 100
    }
}

#[async_trait]
impl Provider for Flaky {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        let question = request.last_user_text();
        let (begin, end) = (
            Ok(StreamEvent::Text("right ".to_owned())),
            Ok(StreamEvent::Text(question)),
        );
        let fault = self.percent();
        Ok(match fault {
            0..20 => {
                let retry_after = (fault < 10).then(|| Duration::from_secs(fault * 4));
                let message = "slow down".to_owned();
                return Err(ProviderError::RateLimited {
                    retry_after,
                    message,
                });
            }
            20..30 => futures_util::stream::iter([begin]).boxed(),
            30..35 => futures_util::stream::iter([begin])
                .chain(futures_util::stream::pending())
                .boxed(),
            _ => {
                let finished = Ok(StreamEvent::Finished(FinishReason::Stop));
                futures_util::stream::iter([begin, end, finished]).boxed()
            }
        })
    }
}

/// Returns how many of a day's questions got the right answer. All calls end, or this does not
/// return.
async fn right_answers(candidates: Vec<Candidate>) -> u64 {
    let router = ProviderRouter::new(candidates, RetryPolicy::default());
    let mut right = 0;
    for number in 0..QUESTIONS {
        let question = ChatMessage::user(format!("question {number}"));
        let (context, shown) = watched();
        let response = router
            .chat_with_failover(request(vec![question]), &context)
            .await;
        let expected = format!("right question {number}");
        let seen = shown.text();
        let last = seen.rsplit('|').next().unwrap_or_default();
        let is_right = response.content.as_deref() == Some(&expected) && last == expected;
        let is_explained = response.finish_reason == FinishReason::Error;
        assert!(is_right || is_explained, "{response:?} {seen}");
        right += u64::from(is_right);
        tokio::time::sleep(PAUSE).await;
    }
    right
}

#[tokio::test(start_paused = true)]
async fn a_day_with_two_flaky_models() {
    let right = right_answers(vec![Flaky::candidate("a", 7), Flaky::candidate("b", 11)]).await;
    println!("{right} of {QUESTIONS} answers were right");
    assert!(right * 1000 >= QUESTIONS * 995, "{right} of {QUESTIONS}");
}

#[tokio::test(start_paused = true)]
async fn a_day_with_one_flaky_model() {
    let right = right_answers(vec![Flaky::candidate("a", 13)]).await;
    println!("{right} of {QUESTIONS} answers were right");
    assert!(right * 100 >= QUESTIONS * 95, "{right} of {QUESTIONS}");
}
