//! A text that must not be seen.

use std::fmt;

use serde::Deserialize;

/// What takes the place of a secret.
const HIDDEN: &str = "<secret>";

/// A secret text: a token, a password, or an address that may hold one. Never shown, never
/// serialised.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, without the blanks around it. Only for where it has to be used.
    pub(crate) fn expose(&self) -> &str {
        self.0.trim()
    }

    /// `text` without the secret, nor the last part of a bot's token, which is the signature.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let whole = self.expose();
        let signature = whole.rsplit_once('.').map_or("", |(_, signature)| signature);
        let mut text = text.to_owned();
        for secret in [whole, signature].into_iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, HIDDEN);
        }
        text
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
        let token = Secret::new(" MTIz.abc.S1g \n");
        let table = [
            ("Bot MTIz.abc.S1g is odd", "Bot <secret> is odd"),
            ("only S1g", "only <secret>"),
            ("the bot MTIz", "the bot MTIz"),
        ];
        for (text, scrubbed) in table {
            assert_eq!(token.scrub(text), scrubbed);
        }
        assert_eq!(format!("{token:?} {:?}", Secret::default()), "<secret> <none>");
        assert_eq!(Secret::default().scrub("as it is"), "as it is");
    }
}
