//! Tokens, kept out of whatever is shown.

use std::fmt;

use serde::Deserialize;

/// What stands in place of a secret.
const HIDDEN: &str = "<secret>";

/// A token, or an address that holds a password. `Debug` says only whether there is one.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text without the blanks around it, for the one place that has to send it.
    pub(crate) fn expose(&self) -> &str {
        self.0.trim()
    }

    /// `text` with every occurrence of the secret hidden.
    pub(crate) fn scrub(&self, text: &str) -> String {
        match self.expose() {
            "" => text.to_owned(),
            secret => text.replace(secret, HIDDEN),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.expose().is_empty() { "<none>" } else { HIDDEN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_nowhere() {
        let token = Secret::new(" xoxb-1-AbC\n");
        assert_eq!(token.scrub("Bearer xoxb-1-AbC was refused"), "Bearer <secret> was refused");
        assert_eq!(format!("{token:?} {:?}", Secret::default()), "<secret> <none>");
        assert_eq!(Secret::default().scrub("as it is"), "as it is");
    }
}
