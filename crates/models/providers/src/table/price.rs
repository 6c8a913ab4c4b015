//! List prices of models.
//!
//! Decision: prices are data with a date, matched like context windows by the beginning of the
//! model's own name, but at a boundary: `gpt-5` is the price of `gpt-5-2025-08-07` and not that of
//! `gpt-5.9`, which has no known price. Open models cost what their host asks, so their rows name
//! the provider.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use nanobot_provider::ModelPrice;
use serde::Deserialize;

use super::window::own_name;
use super::{ProviderKind, ProviderSpec, WireProtocol};

/// Suffix of models that a gateway offers for free.
const FREE_SUFFIX: &str = ":free";

/// The bundled prices.
static PRICES: LazyLock<PriceTable> = LazyLock::new(|| {
    serde_json::from_str(include_str!("prices.json")).unwrap_or_else(|error| {
        tracing::error!(%error, "the bundled prices cannot be read: no price is known");
        PriceTable::default()
    })
});

#[derive(Debug, Default, Deserialize)]
struct PriceTable {
    date: String,
    /// Providers whose price does not depend on tokens.
    unmetered: Vec<String>,
    prices: Vec<PriceRow>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PriceRow {
    provider: Option<String>,
    models: Vec<String>,
    input: f64,
    cached_input: Option<f64>,
    cache_write: Option<f64>,
    output: f64,
}

/// Returns the date of the bundled prices, as year and month.
#[must_use]
pub fn price_date() -> &'static str {
    &PRICES.date
}

/// Returns the price of a model: the user's own, by the model's name or `provider/name`, else the
/// bundled one. `None` if it is unknown or does not depend on tokens, as that of a subscription.
#[must_use]
pub fn model_price(
    provider: &str,
    model: &str,
    own: &BTreeMap<String, ModelPrice>,
) -> Option<ModelPrice> {
    let with_provider = format!("{provider}/{model}");
    let is_named = |name: &str| {
        [model, &with_provider]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    if let Some((_, price)) = own.iter().find(|(name, _)| is_named(name)) {
        return Some(*price);
    }
    if let Some(spec) = ProviderSpec::find(provider) {
        if spec.kind == ProviderKind::Local || spec.wire == WireProtocol::Demo {
            return Some(ModelPrice::FREE);
        }
        if spec.kind == ProviderKind::SignIn {
            return None;
        }
    }
    if model.ends_with(FREE_SUFFIX) {
        return Some(ModelPrice::FREE);
    }
    if PRICES.unmetered.iter().any(|name| name == provider) {
        return None;
    }
    bundled(provider, &own_name(model))
}

fn bundled(provider: &str, name: &str) -> Option<ModelPrice> {
    let rows = PRICES.prices.iter().filter(|row| {
        let only = row.provider.as_deref();
        only.is_none_or(|only| only == provider)
    });
    let fitting = rows.filter_map(|row| {
        let lengths = row.models.iter().filter(|family| is_of(name, family));
        Some((row, lengths.map(String::len).max()?))
    });
    // A row of the provider wins over one of the same name for all.
    let (row, _) = fitting.max_by_key(|(row, length)| (*length, row.provider.is_some()))?;
    Some(ModelPrice {
        input: row.input,
        cached_input: row.cached_input,
        cache_write: row.cache_write,
        output: row.output,
    })
}

/// `true` if a model's name is that of the family, or continues it after a boundary.
fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| {
        rest.chars()
            .next()
            .is_none_or(|next| matches!(next, '-' | ':' | '@' | '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_family_at_a_boundary_gives_the_price() {
        let none = BTreeMap::new();
        for (provider, model, input) in [
            ("openai", "gpt-4o", Some(2.5)),
            ("openai", "gpt-4o-mini-2024-07-18", Some(0.15)),
            ("openai", "gpt-5-2025-08-07", Some(1.25)),
            ("openai", "gpt-5.5-2026-04-23", Some(5.0)),
            ("openai", "gpt-5.9", None),
            ("custom", "my-model", None),
            ("anthropic", "claude-opus-4-5-20251101", Some(5.0)),
            ("anthropic", "claude-opus-4-1", Some(15.0)),
            ("openrouter", "anthropic/claude-sonnet-4.5", Some(3.0)),
            ("bedrock", "us.anthropic.claude-haiku-4-5-v1:0", Some(1.0)),
            ("openrouter", "deepseek/deepseek-chat:free", Some(0.0)),
            ("groq", "llama-3.3-70b-versatile", Some(0.59)),
            ("together", "llama-3.3-70b-versatile", None),
            ("groq", "moonshotai/kimi-k2-instruct", Some(1.0)),
            ("moonshot", "kimi-k2-0905-preview", Some(0.6)),
            ("ollama", "gpt-4o", Some(0.0)),
            ("demo", "demo", Some(0.0)),
            ("openai_codex", "gpt-5", None),
            ("kimi_coding", "kimi-k2.5", None),
        ] {
            let price = model_price(provider, model, &none);
            assert_eq!(price.map(|price| price.input), input, "{provider} {model}");
        }
    }

    #[test]
    fn own_price_wins() {
        let price = |input| ModelPrice {
            input,
            ..ModelPrice::default()
        };
        let own = BTreeMap::from([
            ("GPT-4o".to_owned(), price(7.0)),
            ("ollama/llama3".to_owned(), price(8.0)),
        ]);
        for (provider, model, input) in [
            ("openai", "gpt-4o", Some(7.0)),
            ("ollama", "llama3", Some(8.0)),
            ("ollama", "other", Some(0.0)),
        ] {
            let price = model_price(provider, model, &own);
            assert_eq!(price.map(|price| price.input), input, "{provider} {model}");
        }
    }

    #[test]
    fn bundled_prices_are_plausible_and_listed_once() {
        assert!(price_date().len() == 7, "{}", price_date());
        let mut seen = std::collections::BTreeSet::new();
        for row in &PRICES.prices {
            let cached = row.cached_input.unwrap_or(row.input);
            let is_plausible = (0.0..=200.0).contains(&row.input)
                && (row.input..=700.0).contains(&row.output)
                && (0.0..=row.input).contains(&cached)
                && row.cache_write.is_none_or(|price| price >= row.input);
            assert!(is_plausible, "{row:?}");
            for model in &row.models {
                assert!(*model == own_name(model), "{model}");
                assert!(seen.insert((row.provider.clone(), model)), "{model}");
            }
        }
        assert!(seen.len() > 90, "{}", seen.len());
    }
}
