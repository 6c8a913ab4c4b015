//! Settings of the budget.

use std::collections::BTreeMap;

use nanobot_provider::ModelPrice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::caps::{Scope, Unit};

/// Reaction to a request that does not fit into a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnLimit {
    /// The request is not sent. At 90 % of a cap a person is asked before a turn begins.
    #[default]
    Stop,
    /// The request is sent, with a notice.
    Warn,
}

/// `budget`: caps on what model requests may cost. A request of a model with a known price counts
/// in US dollars, one without in tokens; models on this machine cost nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSettings {
    /// Cap of one turn in USD; 0 is none.
    #[schemars(range(min = 0.0))]
    pub per_turn: f64,
    /// Cap of one conversation in USD, until `/new`; 0 is none.
    #[schemars(range(min = 0.0))]
    pub per_session: f64,
    /// Cap of a calendar day in USD, over everything; 0 is none.
    #[schemars(range(min = 0.0))]
    pub per_day: f64,
    /// Cap of one scheduled job, or of the heartbeat, in USD a day; 0 is none.
    #[schemars(range(min = 0.0))]
    pub per_job: f64,
    /// Cap of one turn in tokens of models without a known price; 0 is none.
    pub tokens_per_turn: u64,
    /// Cap of one conversation in tokens of models without a known price; 0 is none.
    pub tokens_per_session: u64,
    /// Cap of a calendar day in tokens of models without a known price; 0 is none.
    pub tokens_per_day: u64,
    /// Cap of one scheduled job, or of the heartbeat, in tokens of models without a known price a
    /// day; 0 is none.
    pub tokens_per_job: u64,
    /// Reaction to a request that does not fit into a cap: `stop` refuses it, `warn` sends it with
    /// a notice.
    pub on_limit: OnLimit,
    /// Prices of models by their name, or by `provider/name`, in USD per million tokens. They
    /// replace the bundled ones.
    pub prices: BTreeMap<String, ModelPrice>,
}

impl Default for BudgetSettings {
    /// 10 USD and 20 million tokens a day, and no other cap.
    fn default() -> Self {
        Self {
            per_turn: 0.0,
            per_session: 0.0,
            per_day: 10.0,
            per_job: 0.0,
            tokens_per_turn: 0,
            tokens_per_session: 0,
            tokens_per_day: 20_000_000,
            tokens_per_job: 0,
            on_limit: OnLimit::Stop,
            prices: BTreeMap::new(),
        }
    }
}

impl BudgetSettings {
    /// Returns a cap in tokens or in millionths of a US dollar; `None` if there is none.
    pub(super) fn cap(&self, scope: Scope, unit: Unit) -> Option<u64> {
        let (dollars, tokens) = match scope {
            Scope::Turn => (self.per_turn, self.tokens_per_turn),
            Scope::Session => (self.per_session, self.tokens_per_session),
            Scope::Job => (self.per_job, self.tokens_per_job),
            Scope::Day => (self.per_day, self.tokens_per_day),
        };
        let cap = match unit {
            Unit::Usd => micros(dollars),
            Unit::Tokens => tokens,
        };
        (cap > 0).then_some(cap)
    }
}

/// Returns US dollars in millionths, rounded; 0 for a negative amount.
pub(super) fn micros(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}
