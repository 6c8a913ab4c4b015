//! A text that must not be seen.

use std::fmt;

use serde::Deserialize;

/// What takes the place of a secret.
const HIDDEN: &str = "<secret>";

/// A secret text: a token, or an address that may hold a password. Never shown, never serialised.
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

    /// Whether this is it, found out in a time that says nothing about how much of it is right.
    /// Nothing is the empty secret.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        let own = self.expose().as_bytes();
        let mut difference = u8::from(own.len() != shown.len() || own.is_empty());
        for (own, shown) in own.iter().zip(shown) {
            difference |= std::hint::black_box(own ^ shown);
        }
        difference == 0
    }

    /// `text` without the secret, nor the part of a token behind its bot id.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let whole = self.expose();
        let key = whole.split_once(':').map_or("", |(_, key)| key);
        let mut text = text.to_owned();
        for secret in [whole, key].into_iter().filter(|secret| !secret.is_empty()) {
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
        let token = Secret::new(" 42:AbC \n");
        let table = [
            ("http://x/bot42:AbC/getMe", "http://x/bot<secret>/getMe"),
            ("only AbC", "only <secret>"),
            ("bot 42", "bot 42"),
        ];
        for (text, scrubbed) in table {
            assert_eq!(token.scrub(text), scrubbed);
        }
        assert_eq!(format!("{token:?} {:?}", Secret::default()), "<secret> <none>");
        assert_eq!(Secret::default().scrub("as it is"), "as it is");
    }

    #[test]
    fn only_the_whole_secret_is_the_secret() {
        let secret = Secret::new("abc");
        let shown = ["abc", "abd", "ab", "abcd", ""].map(|shown| secret.is(shown.as_bytes()));
        assert_eq!(shown, [true, false, false, false, false]);
        assert!(!Secret::default().is(b""));
    }
}
