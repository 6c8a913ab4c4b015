//! A text that must not be seen.

use std::fmt;

use serde::Deserialize;

/// What takes the place of a secret.
const HIDDEN: &str = "<secret>";

/// A password. Never shown, never serialised.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Only for where it has to be used.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the secret: servers repeat what they were sent.
    pub(crate) fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, HIDDEN) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<none>" } else { HIDDEN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_nowhere() {
        let password = Secret::new("hunter 2");
        assert_eq!(format!("{password:?} {:?}", Secret::default()), "<secret> <none>");
        assert_eq!(password.scrub("NO hunter 2 is wrong"), "NO <secret> is wrong");
        assert_eq!(Secret::default().scrub("as it is"), "as it is");
    }
}
