//! Which candidate answers, how often it is tried, and when it rests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_types::{ModelId, TraceId};
use tokio_util::sync::CancellationToken;

use crate::{Generation, Provider};

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
        f.debug_struct("CallContext").field("trace", &self.trace).finish_non_exhaustive()
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
    /// The longest pause a vendor may ask for before the candidate is given up instead.
    pub longest_pause: Duration,
    /// How long a stream may be silent.
    pub idle: Duration,
    /// How long a whole call may take.
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
    candidates: Vec<Candidate>,
    policy: RetryPolicy,
}
