//! Description of a call before it runs, for the decision about it.
//!
//! Decision: the tool itself describes a call, because only the tool knows which arguments are a
//! destination, a file or a command. The description is made before the call runs and does nothing.

use nanobot_types::Effect;

/// Description of a call before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallReview {
    /// Risk of the call in a turn that read text by strangers.
    pub risk: CallRisk,
    /// Destination of the arguments, if they leave the conversation: another chat, a web site.
    pub destination: Option<String>,
    /// Facts besides the arguments on which the effect of the call depends, such as the folder that
    /// a command starts in. A permission holds only while they stay the same.
    pub circumstances: String,
    /// The rule of a permission that also covers later calls; `None` if every call needs a
    /// permission of its own. Two calls with the same rule must do the same kind of thing.
    pub rule: Option<String>,
}

/// Risk of a call in a turn that read text by strangers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallRisk {
    /// It runs: strangers gain nothing by it, or the tool refuses it anyway.
    #[default]
    None,
    /// It runs if a person agrees. The text says why, as the end of "This call …".
    NeedsConsent(String),
    /// It is refused. The text says why, as the end of "This call …".
    Refused(String),
}

impl CallReview {
    /// Returns the review of a call of which only its effect is known.
    #[must_use]
    pub fn of_effect(effect: Effect) -> Self {
        let risk = match effect {
            Effect::Pure | Effect::Idempotent => CallRisk::None,
            Effect::Irreversible => CallRisk::NeedsConsent("cannot be undone".to_owned()),
        };
        Self {
            risk,
            ..Self::default()
        }
    }

    /// Adds the rule of a permission that also covers later calls.
    #[must_use]
    pub fn with_rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }
}
