//! Failover between candidates, with retries and cooldowns.
//!
//! Decision: a call never fails. Every failure ends as an [`LlmResponse`] with
//! [`nanobot_types::FinishReason::Error`] that names the failed candidate, the reason and what to
//! try. A failing candidate gets a cooldown, and the next one is asked; if none answers, all are
//! asked again after pauses. The first call after a cooldown is a probe, and other calls skip the
//! candidate until the probe has succeeded. If every candidate is in cooldown, they are asked
//! anyway, except by calls that no one waits for after an error that only a person can correct.
//! An answer that breaks off after the user has seen its beginning is withdrawn and asked for again,
//! at most three times.

mod adapt;
mod attempts;
mod call;
mod concurrency;
mod cooldown;
mod exchange;
mod explain;
mod health;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_types::{LlmResponse, ModelId, ProviderName, TraceId};
use tokio_util::sync::CancellationToken;

use self::call::RoutedCall;
use self::concurrency::ConcurrencyLimits;
use self::health::Health;
use crate::{
    CallAccount, ChatRequest, ContextWindow, Generation, Provider, SpendLedger, Unlimited,
    UsageMeter,
};

pub use self::cooldown::{Cooldown, CooldownKind, CooldownStore};

/// An update from a router while a call is in progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Visible text.
    Text(String),
    /// The text since the call began, or since the last restart, is void: the answer broke off, and
    /// is asked for again.
    Restart,
    /// Reasoning.
    Reasoning(String),
    /// A line for the user: the candidate that failed and what is tried next.
    Notice(String),
    /// A line for the user: another candidate than the preferred one has answered, and the reason.
    Fallback(String),
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

/// Writes `provider/model`, as users write it.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, model) = (self.provider.name().as_str(), self.model.as_str());
        match model.strip_prefix(name) {
            Some(rest) if rest.starts_with('/') => f.write_str(model),
            _ if model.is_empty() => f.write_str(name),
            _ => write!(f, "{name}/{model}"),
        }
    }
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
    /// Maximum time until the first event of a [local](crate::Provider::is_local) provider.
    pub local_first: Duration,
    /// Maximum duration of one attempt with a local provider.
    pub local_total: Duration,
}

impl Default for RetryPolicy {
    /// Pauses of 1, 2 and 4 s; at most 60 s on request of a vendor; 90 s without an event; 300 s in
    /// total. A local provider has 15 minutes until its first event, and an hour in total: a small
    /// computer reads about ten tokens of a prompt a second.
    fn default() -> Self {
        Self {
            pauses: [1, 2, 4].map(Duration::from_secs).to_vec(),
            longest_pause: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            total: Duration::from_secs(300),
            local_first: Duration::from_secs(900),
            local_total: Duration::from_secs(3600),
        }
    }
}

/// Candidates in order of preference, with their cooldowns.
#[derive(Debug)]
pub struct ProviderRouter {
    slots: Vec<CandidateSlot>,
    policy: RetryPolicy,
    meter: UsageMeter,
    limits: ConcurrencyLimits,
    cooldowns: Option<Arc<dyn CooldownStore>>,
    ledger: Arc<dyn SpendLedger>,
}

#[derive(Debug)]
struct CandidateSlot {
    candidate: Candidate,
    /// Shared by all candidates of the same provider and model.
    health: Arc<Health>,
    /// Name by which a request prefers it.
    preset: Option<String>,
    /// `true` if it is asked without being preferred.
    is_listed: bool,
}

impl ProviderRouter {
    /// Creates a router over these candidates, the preferred one first, none of them in cooldown.
    #[must_use]
    pub fn new(candidates: impl IntoIterator<Item = Candidate>, policy: RetryPolicy) -> Self {
        let mut router = Self {
            slots: Vec::new(),
            policy,
            meter: UsageMeter::default(),
            limits: ConcurrencyLimits::default(),
            cooldowns: None,
            ledger: Arc::new(Unlimited),
        };
        for candidate in candidates {
            router.add(candidate, None, true);
        }
        router
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

    /// Adds candidates that are asked only by requests that name them: such a request has the name
    /// as its `model`. If the candidate fails, the others are asked in their order.
    #[must_use]
    pub fn with_presets(mut self, presets: impl IntoIterator<Item = (String, Candidate)>) -> Self {
        for (name, candidate) in presets {
            self.add(candidate, Some(name), false);
        }
        self
    }

    /// Limits the number of concurrent requests to providers; further ones wait in order of
    /// arrival. 0 is no limit.
    #[must_use]
    pub fn with_limits(mut self, limits: impl IntoIterator<Item = (ProviderName, usize)>) -> Self {
        for (provider, limit) in limits {
            self.limits.set(provider, limit);
        }
        self
    }

    /// Continues the cooldowns of a store, and keeps them there. Those after a rejected key begin
    /// anew with each process, because a restart often follows its correction.
    #[must_use]
    pub fn with_cooldowns(mut self, store: Arc<dyn CooldownStore>) -> Self {
        let saved = store.load();
        for slot in &self.slots {
            let title = slot.candidate.to_string();
            if let Some(cooldown) = saved.iter().find(|saved| saved.candidate == title) {
                slot.health.restore(cooldown);
            }
        }
        self.cooldowns = Some(store);
        self
    }

    fn add(&mut self, candidate: Candidate, preset: Option<String>, is_listed: bool) {
        let title = candidate.to_string();
        let mut known = self.slots.iter();
        let known = known.find(|slot| slot.candidate.to_string() == title);
        let health = known.map(|slot| slot.health.clone()).unwrap_or_default();
        self.slots.push(CandidateSlot {
            candidate,
            health,
            preset,
            is_listed,
        });
    }

    /// Returns the candidates that are asked without being named, the preferred one first.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        let listed = self.slots.iter().filter(|slot| slot.is_listed);
        listed.map(|slot| &slot.candidate)
    }

    /// Returns the candidates that a request can name, in their order.
    pub fn presets(&self) -> impl Iterator<Item = (&str, &Candidate)> {
        let named = |slot| {
            let CandidateSlot {
                preset, candidate, ..
            }: &CandidateSlot = slot;
            Some((preset.as_deref()?, candidate))
        };
        self.slots.iter().filter_map(named)
    }

    /// Returns the candidates of a request, in the order in which they are asked.
    fn in_order(&self, model: &ModelId) -> impl Iterator<Item = &CandidateSlot> {
        let is_named = |slot: &&CandidateSlot| slot.preset.as_deref() == Some(model.as_str());
        let named = self.slots.iter().find(is_named);
        let is_other = move |slot: &&CandidateSlot| {
            let is_same = named.is_some_and(|named| Arc::ptr_eq(&named.health, &slot.health));
            slot.is_listed && !is_same
        };
        named.into_iter().chain(self.slots.iter().filter(is_other))
    }

    /// Returns the candidate that a request is sent to first, by the request's `model`: the name of a
    /// preset, or empty.
    #[must_use]
    pub fn preferred(&self, model: &ModelId) -> Option<&Candidate> {
        self.in_order(model).next().map(|slot| &slot.candidate)
    }

    /// Returns the window with which the server of that candidate runs its model, if it says so (see
    /// [`Provider::context_window`]).
    pub async fn context_window(&self, model: &ModelId) -> Option<ContextWindow> {
        let Candidate {
            provider, model, ..
        } = self.preferred(model)?;
        provider.context_window(model).await
    }

    /// Returns the window with which the server of a model that a candidate has runs it, if it says
    /// so.
    pub async fn context_window_of(&self, model: &ModelId) -> Option<ContextWindow> {
        let mut slots = self.slots.iter();
        let slot = slots.find(|slot| slot.candidate.model == *model)?;
        slot.candidate.provider.context_window(model).await
    }

    fn save_cooldowns(&self) {
        let Some(store) = &self.cooldowns else { return };
        let mut cooldowns: Vec<Cooldown> = Vec::new();
        for slot in &self.slots {
            let cooldown = slot.health.cooldown(slot.candidate.to_string());
            let is_new = |found: &Cooldown| {
                found.kind != CooldownKind::Auth
                    && cooldowns
                        .iter()
                        .all(|known| known.candidate != found.candidate)
            };
            cooldowns.extend(cooldown.filter(is_new));
        }
        store.save(cooldowns);
    }

    /// Returns the requests and tokens of all calls so far.
    #[must_use]
    pub fn meter(&self) -> &UsageMeter {
        &self.meter
    }

    /// Asks the candidates in order until one answers. Never fails: if none answers, the content of
    /// the response tells the user why and what to try, and its finish reason is
    /// [`nanobot_types::FinishReason::ContextOverflow`], with the model that it was too long for, if
    /// a shorter conversation may help. The usage includes failed attempts. Each candidate gets the request with its own model, with its
    /// own generation parameters unless the request sets some, and without the reasoning of other
    /// providers. A request whose `model` is the name of a preset asks that one first.
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
