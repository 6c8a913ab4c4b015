//! Failover between candidates, with retries and cooldowns.
//!
//! Decision: a call never fails. Every failure ends as an [`LlmResponse`] with
//! [`nanobot_types::FinishReason::Error`] that names the failed candidate, the reason and what to
//! try. A failing candidate is retried after pauses; then it gets a cooldown and the next one is
//! asked. The first call after a cooldown is a probe, and other calls skip the candidate until the
//! probe has succeeded. If every candidate is in cooldown, they are asked anyway. Nothing is
//! retried after the user has seen the beginning of an answer.

mod adapt;
mod call;
mod explain;
mod health;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_types::{LlmResponse, ModelId, TraceId};
use tokio_util::sync::CancellationToken;

use self::call::RoutedCall;
use self::health::Health;
use crate::{CallAccount, ChatRequest, Generation, Provider, SpendLedger, Unlimited, UsageMeter};

/// An update from a router while a call is in progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Visible text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A line for the user: the candidate that failed and what is tried next.
    Notice(String),
}

/// Receives deltas. It is called in order from one task and must not block.
pub trait DeltaSink: Send + Sync {
    /// Receives one delta.
    fn delta(&self, delta: Delta);

    /// Notifies that a request is being sent to a candidate, exactly as its provider gets it.
    /// Called again for every attempt. A sink that only shows deltas can ignore it.
    fn sending(&self, _request: &ChatRequest) {}
}

impl<F: Fn(Delta) + Send + Sync> DeltaSink for F {
    fn delta(&self, delta: Delta) {
        self(delta);
    }
}

/// Context of one call.
#[derive(Clone)]
pub struct CallContext {
    /// The turn.
    pub trace: TraceId,
    /// Receiver of the deltas; `None` if there is no observer.
    pub deltas: Option<Arc<dyn DeltaSink>>,
    /// Cancelled when the turn is stopped; the call then ends at once.
    pub cancel: CancellationToken,
    /// The account to which every attempt is charged.
    pub account: CallAccount,
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}

/// A provider with one model and its generation parameters.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model, as the provider writes it.
    pub model: ModelId,
    /// The generation parameters.
    pub generation: Generation,
}

/// Retry and timeout settings of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Pauses before the second, third, … attempt with one candidate. Random jitter of up to a
    /// quarter is added to each.
    pub pauses: Vec<Duration>,
    /// Maximum pause that a vendor may ask for; if it asks for a longer one, the candidate is given
    /// up.
    pub longest_pause: Duration,
    /// Maximum time without an event from a stream.
    pub idle: Duration,
    /// Maximum duration of one attempt, from the request to the end of the answer.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// Pauses of 1, 2 and 4 s; at most 60 s on request of a vendor; 90 s without an event; 300 s in
    /// total.
    fn default() -> Self {
        Self {
            pauses: [1, 2, 4].map(Duration::from_secs).to_vec(),
            longest_pause: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            total: Duration::from_secs(300),
        }
    }
}

/// Candidates in order of preference, with their cooldowns.
#[derive(Debug)]
pub struct ProviderRouter {
    slots: Vec<CandidateSlot>,
    policy: RetryPolicy,
    meter: UsageMeter,
    ledger: Arc<dyn SpendLedger>,
}

#[derive(Debug)]
struct CandidateSlot {
    candidate: Candidate,
    health: Health,
}

impl ProviderRouter {
    /// Creates a router over these candidates, the preferred one first, none of them in cooldown.
    #[must_use]
    pub fn new(candidates: impl IntoIterator<Item = Candidate>, policy: RetryPolicy) -> Self {
        let slots = candidates.into_iter().map(|candidate| CandidateSlot {
            candidate,
            health: Health::default(),
        });
        Self {
            slots: slots.collect(),
            policy,
            meter: UsageMeter::default(),
            ledger: Arc::new(Unlimited),
        }
    }

    /// Charges every attempt to `ledger`, which may refuse it. Without one, nothing is refused.
    #[must_use]
    pub fn with_ledger(self, ledger: Arc<dyn SpendLedger>) -> Self {
        Self { ledger, ..self }
    }

    /// Returns the ledger to which attempts are charged.
    #[must_use]
    pub fn ledger(&self) -> &dyn SpendLedger {
        &*self.ledger
    }

    /// Returns the candidates, the preferred one first.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.slots.iter().map(|slot| &slot.candidate)
    }

    /// Returns the requests and tokens of all calls so far.
    #[must_use]
    pub fn meter(&self) -> &UsageMeter {
        &self.meter
    }

    /// Asks the candidates in order until one answers. Never fails: if none answers, the content of
    /// the response tells the user why and what to try, and its finish reason is
    /// [`nanobot_types::FinishReason::ContextOverflow`] if a shorter conversation may help. The
    /// usage includes failed attempts. Each candidate gets the request with its own model, with its
    /// own generation parameters unless the request sets some, and without the reasoning of other
    /// providers.
    pub async fn chat_with_failover(
        &self,
        request: ChatRequest,
        context: &CallContext,
    ) -> LlmResponse {
        let mut call = RoutedCall::new(self, request, context);
        match context.cancel.run_until_cancelled(call.run()).await {
            Some(response) => response,
            None => call.stopped(),
        }
    }
}
