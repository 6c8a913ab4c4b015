//! The spend ledger contract: asked before every attempt of a model call, informed after it.
//!
//! Decision: the router asks and charges, so that no request escapes: turns, summaries, subagents,
//! judgements and retries all pass through it. A ledger decides about caps and storage; the router
//! knows neither. A refusal ends the call and is not a failure of the candidate, so no other
//! candidate is asked.

use async_trait::async_trait;
use nanobot_types::{ModelId, ProviderName, SessionKey, TraceId, Usage};

use crate::CallAccount;

/// One attempt of a call: one request to one candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct SpendAttempt {
    /// The provider that is asked.
    pub provider: ProviderName,
    /// The model, as the provider writes it.
    pub model: ModelId,
    /// The turn, or the name of a call outside of turns.
    pub turn: TraceId,
    /// The account to which it is charged.
    pub account: CallAccount,
    /// Estimated prompt tokens, uncached; the other counts are zero.
    pub estimate: Usage,
}

/// The tokens of an attempt that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The tokens: as the vendor reported them, else estimated. Zero if the vendor refused the
    /// request before its first event, because refused requests are not billed.
    pub usage: Usage,
    /// `true` if no vendor reported the tokens.
    pub is_estimate: bool,
    /// `true` if the attempt gave no complete answer: it failed, stalled, broke off or was stopped.
    pub failed: bool,
}

/// Decision about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpendVerdict {
    /// It may be sent.
    Admitted {
        /// A line for the user about a cap that is near.
        notice: Option<String>,
    },
    /// It must not be sent.
    Refused {
        /// The answer for the user: which cap, and how to go on.
        explanation: String,
    },
}

/// Keeps account of what model requests cost and decides whether another one may be sent.
#[async_trait]
pub trait SpendLedger: Send + Sync + std::fmt::Debug {
    /// Decides about an attempt. An admitted attempt is charged exactly once, by
    /// [`SpendLedger::charge`]; until then its estimate counts as spent.
    async fn admit(&self, attempt: &SpendAttempt) -> SpendVerdict;

    /// Charges an admitted attempt. Returns at once: the charge counts for every later
    /// [`SpendLedger::admit`] of this process, and is durable after [`SpendLedger::flush`].
    fn charge(&self, attempt: &SpendAttempt, spent: Spent);

    /// Waits until all charges so far are durable, or until storing them failed; a failure is
    /// logged and stored again with the next charge.
    async fn flush(&self);

    /// Begins a new period of the session's cap, because its conversation was begun anew.
    async fn restart_session(&self, session: &SessionKey);

    /// Describes for a person what was spent today and in this session, and what the caps are;
    /// `None` if no account is kept.
    async fn report(&self, session: &SessionKey) -> Option<String>;
}

/// A ledger without caps and without storage: it admits every attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

#[async_trait]
impl SpendLedger for Unlimited {
    async fn admit(&self, _attempt: &SpendAttempt) -> SpendVerdict {
        SpendVerdict::Admitted { notice: None }
    }

    fn charge(&self, _attempt: &SpendAttempt, _spent: Spent) {}

    async fn flush(&self) {}

    async fn restart_session(&self, _session: &SessionKey) {}

    async fn report(&self, _session: &SessionKey) -> Option<String> {
        None
    }
}
