//! Key paths and the spelling of keys.
//!
//! A key may be written in camelCase, snake_case or kebab-case; camelCase is canonical. Only text
//! in one of these three forms is folded, so that names in the position of a key (`!room:server`,
//! `X-Api-Key`, `PATH_EXTRA`) are left alone. The [`Schema`](crate::Schema), not this module,
//! decides which keys are names.

use std::fmt;

use crate::ConfigError;

/// The path of a value: the keys from the root down. An element of a list is denoted by its index.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    /// Parses `a.b.c`; a part that itself contains dots is written in double quotes: `a."b.c".d`.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let bad = |reason| ConfigError::BadKey {
            key: text.to_owned(),
            reason,
        };
        let mut parts = Vec::new();
        let mut part = String::new();
        let mut quoted = false;
        for letter in text.chars() {
            match letter {
                '"' => quoted = !quoted,
                '.' if !quoted => parts.push(std::mem::take(&mut part)),
                other => part.push(other),
            }
        }
        parts.push(part);
        if quoted {
            return Err(bad("a quote is not closed"));
        }
        if parts.iter().any(String::is_empty) {
            return Err(bad("a part between the dots is empty"));
        }
        Ok(Self(parts))
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.to_owned());
        Self(parts)
    }

    pub(crate) fn join(&self, tail: &[String]) -> Self {
        let mut parts = self.0.clone();
        parts.extend(tail.iter().cloned());
        Self(parts)
    }

    pub(crate) fn parent(&self) -> Option<Self> {
        let (_, rest) = self.0.split_last()?;
        Some(Self(rest.to_vec()))
    }

    pub(crate) fn parts(&self) -> &[String] {
        &self.0
    }

    pub(crate) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

impl From<Vec<String>> for KeyPath {
    fn from(parts: Vec<String>) -> Self {
        Self(parts)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(".")?;
            }
            if part.contains('.') {
                write!(formatter, "\"{part}\"")?;
            } else {
                formatter.write_str(part)?;
            }
        }
        Ok(())
    }
}

/// Returns the canonical spelling of a key: `max_tokens` and `max-tokens` become `maxTokens`.
/// Anything that is not a key in one of the three spellings is returned unchanged.
pub(crate) fn camel(key: &str) -> String {
    let is_key = key.starts_with(|first: char| first.is_ascii_lowercase())
        && key
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'));
    let words: Vec<&str> = key.split(['_', '-']).collect();
    if !is_key || words.iter().any(|word| word.is_empty()) {
        return key.to_owned();
    }
    let mut folded = String::with_capacity(key.len());
    for (index, word) in words.into_iter().enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if index > 0 => folded.push(first.to_ascii_uppercase()),
            Some(first) => folded.push(first),
            None => {}
        }
        folded.push_str(letters.as_str());
    }
    folded
}

/// Normalizes a key for comparison where case is lost, as in names of environment variables.
pub(crate) fn flat(key: &str) -> String {
    key.chars()
        .filter(|letter| !matches!(letter, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the candidate that was most likely meant, if any is similar enough.
#[must_use]
pub fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let flat_written = flat(written);
    candidates
        // An identical candidate is no suggestion: the key is wrong for another reason.
        .filter(|candidate| *candidate != written)
        .map(|candidate| {
            (
                strsim::jaro_winkler(&flat_written, &flat(candidate)),
                candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= 0.85)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_folds_spellings_and_keeps_names() {
        let table = [
            ("maxTokens", "maxTokens"),
            ("max_tokens", "maxTokens"),
            ("max-tokens", "maxTokens"),
            ("interval_s", "intervalS"),
            ("e2ee_enabled", "e2eeEnabled"),
            ("PATH_EXTRA", "PATH_EXTRA"),
            ("X-Api-Key", "X-Api-Key"),
            ("!room_a:server", "!room_a:server"),
            ("-100123", "-100123"),
            ("_comment", "_comment"),
            ("a__b", "a__b"),
            ("名_前", "名_前"),
            ("", ""),
        ];
        for (written, canonical) in table {
            assert_eq!(camel(written), canonical, "{written}");
        }
    }

    #[test]
    fn key_path_round_trips() {
        for text in ["gateway.port", "modelPresets.\"gpt-4.1\".model", "a"] {
            assert_eq!(KeyPath::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "a..b", ".a", "a.\"b"] {
            assert!(KeyPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn suggestions_are_near_or_absent() {
        let known = ["maxTokens", "model", "temperature"];
        let suggest = |written| nearest(written, known.into_iter());
        assert_eq!(suggest("maxToken"), Some("maxTokens".to_owned()));
        assert_eq!(suggest("temprature"), Some("temperature".to_owned()));
        assert_eq!(suggest("zebra"), None);
        assert_eq!(suggest("model"), None);
    }
}
