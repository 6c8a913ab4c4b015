//! Which candidate answers, how often it is tried, and when it rests.
//!
//! Decision: a call never fails. Whatever goes wrong ends as an [`LlmResponse`] with
//! [`nanobot_types::FinishReason::Error`] that says who failed, why, and what to try. A failing
//! candidate is tried again after pauses, then the next one is asked and the failed one rests; the
//! first call after a rest is a probe, and others go round the candidate until it has answered. A
//! resting candidate is asked all the same when every candidate rests. Nothing is tried again once
//! a person has seen the beginning of an answer.

mod adapt;
mod call;
mod explain;
mod health;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_types::{LlmResponse, ModelId, TraceId};
use tokio_util::sync::CancellationToken;

use self::call::Call;
use self::health::Health;
use crate::{ChatRequest, Generation, Provider};

/// What a router tells while a call is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Visible text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A line for the person: which candidate failed and what is tried now.
    Notice(String),
}

/// Takes deltas. Called in order from one task; must not block.
pub trait DeltaSink: Send + Sync {
    /// Takes one.
    fn delta(&self, delta: Delta);

    /// A request goes to a candidate, just as its provider gets it; again for every try. Whoever
    /// only shows deltas has no use for it.
    fn sending(&self, _request: &ChatRequest) {}
}

impl<F: Fn(Delta) + Send + Sync> DeltaSink for F {
    fn delta(&self, delta: Delta) {
        self(delta);
    }
}

/// The circumstances of one call.
#[derive(Clone)]
pub struct CallContext {
    /// The turn.
    pub trace: TraceId,
    /// Where deltas go; `None` when nobody watches.
    pub deltas: Option<Arc<dyn DeltaSink>>,
    /// Fires when the turn is stopped; the call ends at once then.
    pub cancel: CancellationToken,
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}

/// A provider with one model and how to use it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Who.
    pub provider: Arc<dyn Provider>,
    /// With which model, in the provider's own spelling.
    pub model: ModelId,
    /// How to generate.
    pub generation: Generation,
}

/// How patient a router is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Pauses before the second, third, … try of one candidate.
    pub pauses: Vec<Duration>,
    /// The longest pause a vendor may ask for before the candidate is given up instead. Up to a
    /// quarter of a pause is added at random.
    pub longest_pause: Duration,
    /// How long a stream may be silent.
    pub idle: Duration,
    /// How long one try may take from the request to the end of the answer.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// Pauses of 1, 2 and 4 s; at most 60 s asked for; 90 s of silence; 300 s in all.
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
    slots: Vec<Slot>,
    policy: RetryPolicy,
}

#[derive(Debug)]
struct Slot {
    candidate: Candidate,
    health: Health,
}

impl ProviderRouter {
    /// A router over these candidates, the preferred one first, all of them awake.
    #[must_use]
    pub fn new(candidates: impl IntoIterator<Item = Candidate>, policy: RetryPolicy) -> Self {
        let slots = candidates.into_iter().map(|candidate| Slot {
            candidate,
            health: Health::default(),
        });
        Self {
            slots: slots.collect(),
            policy,
        }
    }

    /// The candidates, the preferred one first.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.slots.iter().map(|slot| &slot.candidate)
    }

    /// Asks the candidates until one answers. Never fails: when none answers, the response's
    /// content tells the person why and what to try, and its finish reason is
    /// [`nanobot_types::FinishReason::ContextOverflow`] where a shorter conversation may help. The
    /// usage counts failed tries too. Each candidate gets the request with its own model, with its own way to generate
    /// unless the request brings one, and without the reasoning of other providers.
    pub async fn chat_with_failover(
        &self,
        request: ChatRequest,
        context: &CallContext,
    ) -> LlmResponse {
        let mut call = Call::new(self, request, context);
        match context.cancel.run_until_cancelled(call.run()).await {
            Some(response) => response,
            None => call.stopped(),
        }
    }
}
