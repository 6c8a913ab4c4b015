//! The shared secret of clients.

use serde::Deserialize;

/// Length of a token below which a warning is logged, in characters.
pub(crate) const SHORT_TOKEN: usize = 16;

/// A secret that is compared in constant time and never shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// `true` if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `true` for a token that can be guessed; `false` without a token.
    #[must_use]
    pub(crate) fn is_short(&self) -> bool {
        !self.is_empty() && self.0.chars().count() < SHORT_TOKEN
    }

    /// `true` if `candidate` is the secret. The time depends on the length of the candidate alone.
    /// No candidate matches an empty token.
    #[must_use]
    pub fn matches(&self, candidate: &str) -> bool {
        let secret = self.0.as_bytes();
        let same_length = secret.len() == candidate.len();
        let mut difference = u8::from(!same_length) | u8::from(secret.is_empty());
        for (byte, expected) in candidate.bytes().zip(secret.iter().cycle()) {
            difference |= std::hint::black_box(byte ^ expected);
        }
        difference == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_empty() {
            "no token"
        } else {
            "[secret]"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_matches_only_itself() {
        let table = [
            ("abc", "abc", true),
            ("abc", "abd", false),
            ("abc", "abcabc", false),
            ("abc", "", false),
            ("", "", false),
        ];
        for (secret, candidate, same) in table {
            assert_eq!(
                Token::new(secret).matches(candidate),
                same,
                "{secret} {candidate}"
            );
        }
    }
}
