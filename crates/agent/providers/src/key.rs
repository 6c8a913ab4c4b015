//! An API key: checked once, then never shown.

use secrecy::{ExposeSecret as _, SecretString};

/// The marks by which gateways' keys are told apart.
const MARKED: usize = 8;

/// A key that fits into an HTTP header. `Debug` shows nothing of it.
#[derive(Clone, Debug)]
pub struct ApiKey(SecretString);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has a line break inside.
    #[error("the key has a line break inside; it must be one line")]
    LineBreak,
    /// It holds something that no key has.
    #[error("the key holds a space or a character that is not ASCII; copy it again")]
    NotAscii,
}

impl ApiKey {
    /// The key in a text, without the white space around it; `None` when there is none.
    ///
    /// # Errors
    /// [`KeyError`] when the text cannot be a key.
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

    /// Its first characters, as far as vendors mark their keys with them.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.expose().get(..MARKED).unwrap_or_default()
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits_into_a_header_is_a_key() {
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
