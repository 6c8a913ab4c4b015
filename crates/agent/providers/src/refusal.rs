//! Members of a request that a vendor does not take.
//!
//! Vendors differ in what they refuse, and change their minds with new models. So a request that
//! is refused over a member that it can do without is sent again without it, and once that has
//! helped the member is left out from then on.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use nanobot_provider::ProviderError;
use serde_json::Value;

/// How many members one request is freed of.
const MOST: usize = 3;

/// Members by name.
pub(crate) type Members = BTreeSet<&'static str>;

/// What one provider is known not to take.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Members>);

impl Refusals {
    pub(crate) fn known(&self) -> Members {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Remembers what had to be left out of a request that was then taken.
    pub(crate) fn learn(&self, members: Members) {
        if !members.is_empty() {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(members);
        }
    }

    /// Adds the optional member of the body that the refusal names; `false` when there is none, or
    /// when too many were refused already.
    pub(crate) fn add(
        &self,
        members: &mut Members,
        optional: &[&'static str],
        body: &Value,
        error: &ProviderError,
    ) -> bool {
        let ProviderError::BadRequest(words) = error else {
            return false;
        };
        let named = optional
            .iter()
            .find(|member| body.get(**member).is_some() && words.contains(**member));
        let Some(member) = named else { return false };
        tracing::debug!(member, "sending again without a refused member");
        members.len() < self.known().len() + MOST && members.insert(member)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_what_was_sent() {
        let body = json!({ "max_tokens": 1, "temperature": 0.1 });
        let table = [
            (
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
                Some("max_tokens"),
            ),
            ("temperature must be 1", Some("temperature")),
            ("stream_options is unknown", None),
        ];
        let optional = [
            "stream_options",
            "temperature",
            "max_completion_tokens",
            "max_tokens",
        ];
        for (words, expected) in table {
            let mut members = Members::new();
            let error = ProviderError::BadRequest(words.to_owned());
            assert_eq!(
                Refusals::default().add(&mut members, &optional, &body, &error),
                expected.is_some(),
                "{words}"
            );
            assert_eq!(members.first().copied(), expected, "{words}");
        }
    }
}
