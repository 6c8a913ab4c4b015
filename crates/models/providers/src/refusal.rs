//! Request parameters that a vendor does not support.
//!
//! Vendors differ in what they reject, and change it with new models. A request that is rejected
//! over an optional parameter is sent again without it. If that succeeds, the parameter is left out
//! of all later requests.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use nanobot_provider::ProviderError;

/// Maximum number of parameters removed from one request.
const MAX_LEARNED: usize = 3;

/// Names of request parameters.
pub(crate) type ParamNames = BTreeSet<&'static str>;

/// The parameters that one provider is known not to support.
#[derive(Debug, Default)]
pub(crate) struct UnsupportedParams(Mutex<ParamNames>);

impl UnsupportedParams {
    pub(crate) fn params(&self) -> ParamNames {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Remembers the parameters without which a request succeeded.
    pub(crate) fn remember(&self, members: ParamNames) {
        if !members.is_empty() {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(members);
        }
    }

    /// Adds the optional parameter that the error names, if the body contains it. Returns `false` if
    /// there is none, or if too many were removed already.
    pub(crate) fn add(
        &self,
        members: &mut ParamNames,
        optional: &[&'static str],
        is_sent: impl Fn(&str) -> bool,
        error: &ProviderError,
    ) -> bool {
        let ProviderError::BadRequest(words) = error else {
            return false;
        };
        let named = optional
            .iter()
            .find(|member| is_sent(member) && words.contains(**member));
        let Some(member) = named else { return false };
        tracing::debug!(member, "retrying without an unsupported parameter");
        members.len() < self.params().len() + MAX_LEARNED && members.insert(member)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_refused_parameter_in_the_message() {
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
            let mut members = ParamNames::new();
            let error = ProviderError::BadRequest(words.to_owned());
            assert_eq!(
                UnsupportedParams::default().add(
                    &mut members,
                    &optional,
                    |member| body.get(member).is_some(),
                    &error
                ),
                expected.is_some(),
                "{words}"
            );
            assert_eq!(members.first().copied(), expected, "{words}");
        }
    }
}
