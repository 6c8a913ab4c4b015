//! The type of secrets in configurations.
//!
//! Decision: there is no `Display` and no `Serialize`, so that a secret is never written by accident.
//! A section that has to be written back says so at its field, by [`serialize_exposed`]. The memory of
//! a secret is cleared when it is dropped.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer, Serializer};

/// Replacement of a secret in texts.
const HIDDEN: &str = "<secret>";

/// A secret text: a token, a password, or an address that may hold one. Never shown, never
/// serialised by itself.
#[derive(Clone, Default)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// Returns the text without surrounding blanks, which are often copied with a token. Only for
    /// use in requests.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.expose_exact().trim()
    }

    /// Returns the text with surrounding blanks, which may be part of a password. Only for use in
    /// requests.
    #[must_use]
    pub fn expose_exact(&self) -> &str {
        self.0.expose_secret()
    }

    /// `true` if `shown` is this secret. Compares in constant time. An empty secret equals nothing.
    #[must_use]
    pub fn is(&self, shown: &[u8]) -> bool {
        let own = self.expose().as_bytes();
        let mut difference = u8::from(own.len() != shown.len() || own.is_empty());
        for (own, shown) in own.iter().zip(shown) {
            difference |= std::hint::black_box(own ^ shown);
        }
        difference == 0
    }

    /// Returns `text` without the secret: servers repeat what they were sent.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        hide(text, self.expose())
    }

    /// Returns `text` without the secret and without the part of it that `part` finds: some tokens
    /// consist of a public name and a key.
    #[must_use]
    pub fn scrub_with(&self, text: &str, part: impl FnOnce(&str) -> Option<&str>) -> String {
        let text = self.scrub(text);
        part(self.expose()).map_or_else(|| text.clone(), |part| hide(&text, part))
    }
}

fn hide(text: &str, secret: &str) -> String {
    if secret.is_empty() {
        text.to_owned()
    } else {
        text.replace(secret, HIDDEN)
    }
}

/// Serialises the text itself: for `serialize_with` in sections whose defaults or values are written
/// to a configuration.
///
/// # Errors
/// Returns the error of the serializer.
pub fn serialize_exposed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_exact())
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose_exact() == other.expose_exact()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    /// Shows only if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.expose().is_empty() {
            "<none>"
        } else {
            HIDDEN
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_and_scrub_hide_the_secret() {
        let token = Secret::new(" 42:AbC \n");
        assert_eq!(
            token.scrub("http://x/bot42:AbC/getMe"),
            "http://x/bot<secret>/getMe"
        );
        assert_eq!(
            format!("{token:?} {:?}", Secret::default()),
            "<secret> <none>"
        );
        assert_eq!(Secret::default().scrub("as it is"), "as it is");
        assert_eq!(
            (token.expose(), token.expose_exact()),
            ("42:AbC", " 42:AbC \n")
        );
    }

    #[test]
    fn scrub_with_hides_the_secret_part() {
        let key = |token: &'static str, text: &str| {
            Secret::new(token).scrub_with(text, |token| token.split_once(':').map(|(_, key)| key))
        };
        let table = [
            ("42:AbC", "42:AbC", "<secret>"),
            ("42:AbC", "only AbC of 42", "only <secret> of 42"),
            ("42:", "42 is here", "42 is here"),
            ("none", "is none", "is <secret>"),
            ("", "as it is", "as it is"),
        ];
        for (token, text, scrubbed) in table {
            assert_eq!(key(token, text), scrubbed);
        }
    }

    #[test]
    fn secret_matches_only_the_whole_text() {
        let secret = Secret::new("abc");
        let shown = ["abc", "abd", "ab", "abcd", ""].map(|shown| secret.is(shown.as_bytes()));
        assert_eq!(shown, [true, false, false, false, false]);
        assert!(!Secret::default().is(b""));
    }
}
