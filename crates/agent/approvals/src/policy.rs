//! Settings, and the decision about a call before anyone is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use nanobot_tool::{CallReview, CallRisk};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of approvals: the section `tools.approvals`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovalSettings {
    /// Rules by name of a tool. A name that ends with `*` means all tools whose names begin with the
    /// rest; the longest matching name applies.
    pub tools: BTreeMap<String, ToolRule>,
    /// Rule for risky calls of a turn that read text by strangers, unless `tools` has a rule for the
    /// tool.
    pub after_untrusted: ToolRule,
    /// Seconds after which a question without an answer is a refusal; at least 10.
    pub timeout_seconds: u64,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            tools: BTreeMap::new(),
            after_untrusted: ToolRule::Ask,
            timeout_seconds: 600,
        }
    }
}

/// Rule for calls of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolRule {
    /// They run.
    Allow,
    /// They run if a person agrees.
    Ask,
    /// They are refused.
    Deny,
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Run,
    /// It runs if a person agrees. The text is the reason for the question.
    Ask(String),
    /// It is refused. The text is for the model.
    Deny(String),
}

impl ApprovalSettings {
    /// Returns the time after which a question without an answer is a refusal.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.max(10))
    }

    /// Decides about a call of a tool. `untrusted` is the origin of the text by strangers that the
    /// turn read, if it did.
    #[must_use]
    pub fn decide(&self, tool: &str, review: &CallReview, untrusted: Option<&str>) -> Decision {
        let own = self.rule(tool);
        match own {
            Some(ToolRule::Deny) => {
                return Decision::Deny(format!(
                    "Error: the operator's configuration does not allow {tool} (tools.approvals.tools)."
                ));
            }
            Some(ToolRule::Ask) => {
                return Decision::Ask("The configuration says that I ask.".to_owned());
            }
            Some(ToolRule::Allow) | None => {}
        }
        let Some(origin) = untrusted else {
            return Decision::Run;
        };
        match (&review.risk, own.unwrap_or(self.after_untrusted)) {
            (CallRisk::None, _) | (CallRisk::NeedsConsent(_), ToolRule::Allow) => Decision::Run,
            (CallRisk::NeedsConsent(why), ToolRule::Ask) => Decision::Ask(format!(
                "I have read text that strangers may have written ({origin}), and this call {why}."
            )),
            (CallRisk::NeedsConsent(why), ToolRule::Deny) | (CallRisk::Refused(why), _) => {
                Decision::Deny(format!(
                    "Error: refused, because this turn has read text that strangers may have written ({origin}), \
                     and this call {why}. Tell the user what you wanted to do; they can ask for it in a new message."
                ))
            }
        }
    }

    /// Returns `true` if the decision about calls of a tool may be another one than that they run.
    #[must_use]
    pub fn concerns(&self, tool: &str, untrusted: Option<&str>) -> bool {
        untrusted.is_some() || matches!(self.rule(tool), Some(ToolRule::Ask | ToolRule::Deny))
    }

    /// Returns `true` if the operator wants no questions about a tool.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.rule(tool) == Some(ToolRule::Allow)
    }

    fn rule(&self, tool: &str) -> Option<ToolRule> {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => tool.starts_with(prefix),
            None => tool == pattern,
        };
        let fitting = self.tools.iter().filter(|(pattern, _)| fits(pattern));
        fitting
            .max_by_key(|(pattern, _)| (!pattern.ends_with('*'), pattern.len()))
            .map(|(_, rule)| *rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(rules: &[(&str, ToolRule)]) -> ApprovalSettings {
        ApprovalSettings {
            tools: rules
                .iter()
                .map(|(name, rule)| ((*name).to_owned(), *rule))
                .collect(),
            ..ApprovalSettings::default()
        }
    }

    fn review(risk: CallRisk) -> CallReview {
        CallReview {
            risk,
            ..CallReview::default()
        }
    }

    fn kind(decision: &Decision) -> &'static str {
        match decision {
            Decision::Run => "run",
            Decision::Ask(_) => "ask",
            Decision::Deny(_) => "deny",
        }
    }

    #[test]
    fn risk_matters_only_after_texts_of_strangers() {
        let consent = || CallRisk::NeedsConsent("cannot be undone".to_owned());
        let refused = || CallRisk::Refused("changes my instructions".to_owned());
        let table = [
            (None, CallRisk::None, None, "run"),
            (None, consent(), None, "run"),
            (None, refused(), None, "run"),
            (None, CallRisk::None, Some("web_fetch"), "run"),
            (None, consent(), Some("web_fetch"), "ask"),
            (None, refused(), Some("web_fetch"), "deny"),
            (Some(ToolRule::Allow), consent(), Some("web_fetch"), "run"),
            (Some(ToolRule::Allow), refused(), Some("web_fetch"), "deny"),
            (Some(ToolRule::Ask), CallRisk::None, None, "ask"),
            (Some(ToolRule::Deny), CallRisk::None, None, "deny"),
        ];
        for (rule, risk, untrusted, expected) in table {
            let rules: Vec<_> = rule.map(|rule| ("exec", rule)).into_iter().collect();
            let decision = settings(&rules).decide("exec", &review(risk.clone()), untrusted);
            let concerns = settings(&rules).concerns("exec", untrusted);
            assert!(concerns || decision == Decision::Run, "{decision:?}");
            assert_eq!(
                kind(&decision),
                expected,
                "{rule:?} {risk:?} {untrusted:?}: {decision:?}"
            );
        }
    }

    #[test]
    fn longest_fitting_name_applies() {
        let settings = settings(&[
            ("*", ToolRule::Deny),
            ("mcp_*", ToolRule::Ask),
            ("mcp_git_status", ToolRule::Allow),
            ("mcp_git_*", ToolRule::Deny),
        ]);
        for (tool, expected) in [
            ("exec", "deny"),
            ("mcp_time_now", "ask"),
            ("mcp_git_status", "run"),
            ("mcp_git_commit", "deny"),
        ] {
            assert_eq!(settings.allows(tool), expected == "run", "{tool}");
            let decision = settings.decide(tool, &CallReview::default(), None);
            assert_eq!(kind(&decision), expected, "{tool}");
        }
    }

    #[test]
    fn switches_are_never_guessed() {
        for text in [
            r#"{"afterUntrusted": "never"}"#,
            r#"{"tools": {"exec": true}}"#,
        ] {
            assert!(
                serde_json::from_str::<ApprovalSettings>(text).is_err(),
                "{text}"
            );
        }
    }
}
