//! The reason why a provider serves a model, for people.

use std::fmt;

use super::Selection;

/// The rule that selected a provider for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectRule {
    /// The configuration names the provider.
    Named,
    /// The model begins with the name of the provider.
    Prefix,
    /// The name of the model contains this word, and no longer word of another provider.
    Keyword(&'static str),
    /// No other provider fits, and this server has an address.
    LocalAddress,
    /// No other provider fits, and this is the first one with a key.
    AnyKey,
}

impl fmt::Display for SelectRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("the configuration names it"),
            Self::Prefix => f.write_str("the model begins with its name"),
            Self::Keyword(word) => write!(f, "the model contains the word {word:?}"),
            Self::LocalAddress => {
                f.write_str("no name in the model fits a provider, and this server has an address")
            }
            Self::AnyKey => f.write_str(
                "no name in the model fits a provider, and this is the first one with a key",
            ),
        }
    }
}

/// The provider of a model, and the rule that selected it.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The provider.
    pub selection: Selection,
    /// The rule.
    pub rule: SelectRule,
}
