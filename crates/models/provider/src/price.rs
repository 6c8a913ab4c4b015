//! Prices of models, and the cost of an attempt.
//!
//! Decision: costs are whole millionths of a US dollar, rounded up once per attempt, so that sums
//! are exact and nothing costs less than it does.

use nanobot_types::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Price of a model in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelPrice {
    /// Prompt tokens that are not cached.
    pub input: f64,
    /// Prompt tokens read from the cache; the price of `input` without the key.
    pub cached_input: Option<f64>,
    /// Prompt tokens written to the cache; the price of `input` without the key.
    pub cache_write: Option<f64>,
    /// Tokens of the answer, with reasoning.
    pub output: f64,
}

impl ModelPrice {
    /// The price of models that run on the user's own machine.
    pub const FREE: Self = Self {
        input: 0.0,
        cached_input: None,
        cache_write: None,
        output: 0.0,
    };

    /// Returns the cost of these tokens in millionths of a US dollar, rounded up.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> u64 {
        let from_cache = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage
            .cache_write_tokens
            .min(usage.prompt_tokens - from_cache);
        let fresh = usage.prompt_tokens - from_cache - written;
        let parts = [
            (fresh, self.input),
            (from_cache, self.cached_input.unwrap_or(self.input)),
            (written, self.cache_write.unwrap_or(self.input)),
            (usage.completion_tokens, self.output),
        ];
        // A dollar per million tokens is a millionth of a dollar per token.
        let sum: f64 = parts
            .map(|(tokens, price)| tokens as f64 * price)
            .iter()
            .sum();
        // Binary fractions must not turn 3 into 4. A negative or absurd price saturates.
        (sum - 1e-6).ceil().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_tells_cached_written_and_fresh_tokens_apart() {
        let price = ModelPrice {
            input: 3.0,
            cached_input: Some(0.3),
            cache_write: Some(3.75),
            output: 15.0,
        };
        let usage = |prompt, cached, written, completion| Usage {
            prompt_tokens: prompt,
            cached_tokens: cached,
            cache_write_tokens: written,
            completion_tokens: completion,
            reasoning_tokens: 0,
        };
        for (tokens, expected) in [
            (usage(0, 0, 0, 0), 0),
            (usage(1_000_000, 0, 0, 0), 3_000_000),
            (usage(1_000_000, 1_000_000, 0, 0), 300_000),
            (usage(1_000_000, 0, 1_000_000, 0), 3_750_000),
            (usage(0, 0, 0, 1_000_000), 15_000_000),
            (usage(1000, 800, 100, 10), 1065),
            (usage(1, 1, 0, 0), 1),
            // A vendor that reports more cached tokens than tokens.
            (usage(10, 20, 5, 0), 3),
        ] {
            assert_eq!(price.cost(&tokens), expected, "{tokens:?}");
        }
        assert_eq!(ModelPrice::FREE.cost(&usage(9, 0, 0, 9)), 0);
        let plain = ModelPrice {
            input: 1.0,
            ..ModelPrice::default()
        };
        assert_eq!(plain.cost(&usage(9, 3, 3, 9)), 9);
    }
}
