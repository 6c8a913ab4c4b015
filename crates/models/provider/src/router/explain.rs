//! Explanations of failures for the user: the candidate, the reason, and what to try.

use std::time::Duration;

use nanobot_types::{FinishReason, ProviderName};

use super::Candidate;
use crate::ProviderError;

/// Maximum length of a vendor's message shown to the user, in characters.
const MESSAGE_LIMIT: usize = 300;

/// Message if no candidate is configured.
pub(super) const NO_CANDIDATE: &str = "No model is configured. Set agents.defaults.model and the apiKey of its \
     provider under providers in the configuration, or run `nanobot onboard`.";

/// Describes the failure of one candidate and what to try.
pub(super) fn failure(candidate: &Candidate, error: &ProviderError) -> String {
    let advice = advice(candidate.provider.name(), error);
    format!("{candidate}: {}. {advice}", without_advice(error))
}

/// Returns the explanation of an empty answer, if the vendor gave a reason that a retry would not
/// change.
pub(super) fn explain_empty(candidate: &Candidate, reason: &FinishReason) -> Option<String> {
    let why = match reason {
        FinishReason::ContentFilter => {
            "the vendor's content filter withheld the answer. Say it differently, or choose another model."
        }
        FinishReason::Length => {
            "the token limit was reached before the answer began. Raise agents.defaults.maxTokens in the \
             configuration, or ask for less reasoning."
        }
        _ => return None,
    };
    Some(format!("{candidate}: {why}"))
}

/// Describes a candidate that was not asked because of an earlier error.
pub(super) fn pause(candidate: &Candidate, error: &str, wait: Duration) -> String {
    format!(
        "{}: not asked for another {}, because it failed before: {error}. A message in a chat asks \
         it again at once.",
        candidate,
        format_duration(wait)
    )
}

/// Joins the descriptions of the failures of all candidates.
pub(super) fn failures(mut lines: Vec<String>) -> String {
    match lines.len() {
        0 => NO_CANDIDATE.to_owned(),
        1 => lines.remove(0),
        _ => format!("No model answered.\n- {}", lines.join("\n- ")),
    }
}

/// Returns the error without advice, truncated to [`MESSAGE_LIMIT`].
pub(super) fn without_advice(error: &ProviderError) -> String {
    let message = error.to_string();
    let message = message.trim().trim_end_matches('.');
    if message.chars().count() <= MESSAGE_LIMIT {
        return message.to_owned();
    }
    let cut: String = message.chars().take(MESSAGE_LIMIT).collect();
    format!("{cut}…")
}

fn advice(provider: &ProviderName, error: &ProviderError) -> String {
    let section = format!("providers.{}", camel_case(provider.as_str()));
    match error {
        ProviderError::RateLimited { retry_after, .. } => {
            let wait = retry_after.map_or_else(|| "a little".to_owned(), format_duration);
            format!("Wait {wait} and send it again, or choose another model.")
        }
        ProviderError::Quota(_) => {
            "Top up the account with the vendor, or choose another model in agents.defaults.model.".to_owned()
        }
        ProviderError::Auth(_) => format!("Check {section}.apiKey in the configuration."),
        ProviderError::ContextOverflow(_) => {
            "Send /new to begin a new conversation, or choose a model with a larger window.".to_owned()
        }
        ProviderError::ImagesUnsupported(_) => "Send it without images, or choose a model that sees.".to_owned(),
        ProviderError::BadRequest(_) => {
            format!("Check agents.defaults.model and {section} in the configuration.")
        }
        ProviderError::Server { retry_after, .. } => {
            let wait = retry_after.map_or_else(|| "later".to_owned(), |wait| format!("in {}", format_duration(wait)));
            format!("The trouble is on the vendor's side: send it again {wait}, or choose another model.")
        }
        ProviderError::Network(_) => format!(
            "Check the network connection; for a server of your own, that it is running at the address in \
             {section}.apiBase."
        ),
        ProviderError::Stalled(_) => {
            "The model may be overloaded or still loading: send it again later, or choose another model.".to_owned()
        }
        ProviderError::Malformed(_) => {
            format!("Check that {section}.apiBase is the address of a model API, or choose another model.")
        }
    }
}

/// Formats a duration in its two largest units, rounded up.
fn format_duration(wait: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let seconds = wait
        .as_secs()
        .saturating_add(u64::from(wait.subsec_nanos() > 0))
        .max(1);
    let largest = UNITS
        .iter()
        .position(|(size, _)| seconds >= *size)
        .unwrap_or(UNITS.len() - 1);
    let smallest = UNITS.get(largest + 1).map_or(1, |(size, _)| *size);
    let mut rest = seconds.div_ceil(smallest).saturating_mul(smallest);
    let mut words = Vec::new();
    for (size, name) in UNITS {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            words.push(format!(
                "{count} {name}{}",
                if count == 1 { "" } else { "s" }
            ));
        }
    }
    words.join(" and ")
}

/// Returns a provider's name as its configuration key.
fn camel_case(name: &str) -> String {
    let mut key = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else if upper {
            key.extend(c.to_uppercase());
            upper = false;
        } else {
            key.push(c);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_names_use_configuration_spelling() {
        for (name, key) in [
            ("openai", "openai"),
            ("volcengine_coding_plan", "volcengineCodingPlan"),
            ("my-box", "my-box"),
        ] {
            assert_eq!(camel_case(name), key);
        }
    }

    #[test]
    fn vendor_messages_are_shortened() {
        let error = ProviderError::BadRequest("很".repeat(1000));
        assert!(without_advice(&error).chars().count() < MESSAGE_LIMIT + 10);
    }
}
