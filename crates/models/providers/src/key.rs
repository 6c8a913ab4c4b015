//! API keys: validated once, then never shown.

use nanobot_redact::Secret;

/// Number of leading characters by which the keys of gateways are recognised.
const MARKED: usize = 8;

/// An API key that is valid in an HTTP header. Its `Debug` output does not contain the key.
#[derive(Clone, Debug)]
pub struct ApiKey(Secret);

/// Reason why a text is not a valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key contains a line break.
    #[error("the key has a line break inside; it must be one line")]
    LineBreak,
    /// The key contains a space or a character that is not ASCII.
    #[error("the key holds a space or a character that is not ASCII; copy it again")]
    NotAscii,
}

impl ApiKey {
    /// Parses a key, ignoring surrounding white space; `None` if the text is blank.
    ///
    /// # Errors
    /// Returns [`KeyError`] if the text cannot be a key.
    pub fn parse(text: &str) -> Result<Option<Self>, KeyError> {
        let text = text.trim();
        if text.contains(['\n', '\r']) {
            return Err(KeyError::LineBreak);
        }
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err(KeyError::NotAscii);
        }
        Ok((!text.is_empty()).then(|| Self(text.into())))
    }

    /// Returns the leading characters by which vendors mark their keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.expose().get(..MARKED).unwrap_or_default()
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_keys_that_fit_into_a_header() {
        assert_eq!(
            ApiKey::parse(" sk-abc\n").unwrap().unwrap().expose(),
            "sk-abc"
        );
        assert!(ApiKey::parse("  ").unwrap().is_none());
        assert_eq!(ApiKey::parse("sk-a\nbc").unwrap_err(), KeyError::LineBreak);
        assert_eq!(ApiKey::parse("sk-a bc").unwrap_err(), KeyError::NotAscii);
        assert_eq!(ApiKey::parse("密钥").unwrap_err(), KeyError::NotAscii);
        let shown = format!("{:?}", ApiKey::parse("sk-secret").unwrap());
        assert!(
            !shown.contains("secret-") && !shown.contains("sk-"),
            "{shown}"
        );
    }
}
