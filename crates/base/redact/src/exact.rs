//! Redacts the exact values of the secrets that are in use, in all likely encodings.
//!
//! Decision: [`without_secrets`](crate::without_secrets) redacts by name and pattern, which misses
//! a password made of words and hides harmless hashes; that is right for logs and bundles. Text for
//! models and users must otherwise stay intact, so here only exact values are searched for:
//! unencoded, inside JSON, in base64 at any alignment, in hexadecimal, percent-encoded, and
//! reversed. One automaton finds all of them in one pass. Overlapping occurrences become one
//! placeholder, so no part of either remains.
//!
//! Values that ordinary text may contain are not searched for: see [`is_searched`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use crate::HIDDEN;

/// Minimum length of a value that is searched for, in characters.
pub const SHORTEST: usize = 8;
/// Maximum length of a value of letters alone that may be an ordinary word, in characters.
const LONGEST_WORD: usize = 10;
/// Minimum number of different characters of a value that is searched for.
const VARIETY: usize = 4;

/// The secrets of a running program. Clones share them.
///
/// The set only grows: a replaced token stays redacted until the program ends, because pending
/// replies and results may still contain it.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<RwLock<Arc<SecretSet>>>,
}

impl Secrets {
    /// Creates a set of secrets. Values that are not [searched for](is_searched) are ignored.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self {
            known: Arc::new(RwLock::new(Arc::new(SecretSet::new(
                long_enough(values).collect(),
            )))),
        }
    }

    /// Adds values, after a configuration reload or a token refresh.
    pub fn add(&self, values: impl IntoIterator<Item = String>) {
        let values: BTreeSet<String> = long_enough(values).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !values.is_subset(&known.values) {
            *known = Arc::new(SecretSet::new(
                known.values.union(&values).cloned().collect(),
            ));
        }
    }

    /// Replaces every secret in `text` by [`HIDDEN`].
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.known().redact(text)
    }

    /// Redacts all strings and keys of a JSON value.
    #[must_use]
    pub fn redact_json(&self, value: &Value) -> Value {
        self.known().redact_json(value)
    }

    /// Returns a filter for text that arrives in pieces.
    #[must_use]
    pub fn stream(&self) -> SecretStream {
        SecretStream {
            known: self.known(),
            held: String::new(),
            covered: 0,
        }
    }

    fn known(&self) -> Arc<SecretSet> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for Secrets {
    /// Shows the number of values, but no value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("values", &self.known().values.len())
            .finish_non_exhaustive()
    }
}

fn long_enough(values: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let trimmed = values.into_iter().map(|value| value.trim().to_owned());
    trimmed.filter(|value| is_searched(value))
}

/// Returns `true` if a value is searched for. Others would hide ordinary text: values shorter than
/// [`SHORTEST`] characters, of fewer than four different characters (a masked password), and of at
/// most ten letters without anything else (a word).
#[must_use]
pub fn is_searched(value: &str) -> bool {
    let value = value.trim();
    let length = value.chars().count();
    let variety = value.chars().collect::<BTreeSet<char>>().len();
    let is_word = length <= LONGEST_WORD
        && value.chars().all(char::is_alphabetic)
        && value.chars().skip(1).all(|c| !c.is_uppercase());
    length >= SHORTEST && variety >= VARIETY && !is_word
}

/// Redacts secrets in text that arrives in pieces. The end of the text so far is held back while it
/// may be the beginning of a secret, at most as many bytes as the longest encoded secret has. The
/// output does not depend on the pieces.
pub struct SecretStream {
    known: Arc<SecretSet>,
    held: String,
    /// Length of the beginning of `held` that belongs to a redacted secret, in bytes.
    covered: usize,
}

impl SecretStream {
    /// Adds a piece and returns the redacted text that has become certain.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let end = self.known.undecided(&self.held);
        let (shown, read) = self.known.redact_up_to(&self.held, end, self.covered);
        self.covered = read.saturating_sub(end);
        self.held.drain(..end);
        shown
    }

    /// Returns the held-back rest at the end of the text.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        let covered = std::mem::take(&mut self.covered);
        self.known.redact_up_to(&rest, rest.len(), covered).0
    }
}

impl fmt::Debug for SecretStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretStream").finish_non_exhaustive()
    }
}

/// A set of values with all their encodings. Immutable.
#[derive(Default)]
struct SecretSet {
    values: BTreeSet<String>,
    /// Sorted.
    spellings: Vec<String>,
    longest: usize,
    /// `None` if there is nothing to search for.
    search: Option<AhoCorasick>,
}

impl SecretSet {
    fn new(values: BTreeSet<String>) -> Self {
        let spellings: BTreeSet<String> =
            values.iter().flat_map(|value| spellings(value)).collect();
        let spellings: Vec<String> = spellings.into_iter().collect();
        let longest = spellings.iter().map(String::len).max().unwrap_or_default();
        // The spellings of a few secrets make a DFA of some hundred KiB, which stays in memory.
        let search = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&spellings);
        // Building fails only beyond 2^31 states.
        let search = search.ok().filter(|_| !spellings.is_empty());
        Self {
            values,
            spellings,
            longest,
            search,
        }
    }

    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.search {
            Some(search) if search.is_match(text) => {
                Cow::Owned(self.redact_up_to(text, text.len(), 0).0)
            }
            _ => Cow::Borrowed(text),
        }
    }

    fn redact_json(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.redact(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.redact_json(item)).collect(),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(name, value)| (self.redact(name).into_owned(), self.redact_json(value)))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the redacted text before `end`, and the position up to which it was read: `end`, or
    /// the end of a secret that begins before it. The first `covered` bytes belong to a secret that
    /// is redacted already.
    fn redact_up_to(&self, text: &str, end: usize, covered: usize) -> (String, usize) {
        let mut shown = String::with_capacity(end);
        let mut read = covered;
        for (start, stop) in self.secrets_before(text, end, covered) {
            if start < covered {
                read = stop;
                continue;
            }
            shown.push_str(text.get(read..start).unwrap_or_default());
            shown.push_str(HIDDEN);
            read = stop;
        }
        if read < end {
            shown.push_str(text.get(read..end).unwrap_or_default());
            read = end;
        }
        (shown, read)
    }

    /// Returns the places of secrets that begin before `end`, in order. Overlapping ones are one
    /// place.
    fn secrets_before(&self, text: &str, end: usize, covered: usize) -> Vec<(usize, usize)> {
        let mut places: Vec<(usize, usize)> = Vec::new();
        if covered > 0 {
            places.push((0, covered));
        }
        let found = self.search.iter();
        let found = found.filter_map(|search| search.try_find_overlapping_iter(text).ok());
        let mut found: Vec<(usize, usize)> = found
            .flatten()
            .map(|found| (found.start(), found.end()))
            .filter(|(start, _)| *start < end)
            .collect();
        found.sort_unstable();
        for (start, stop) in found {
            match places.last_mut() {
                Some((_, last)) if start < *last => *last = stop.max(*last),
                _ => places.push((start, stop)),
            }
        }
        places
    }

    /// Returns the position from which the text may be the beginning of an encoded secret, or its
    /// length if there is none.
    fn undecided(&self, text: &str) -> usize {
        if self.spellings.is_empty() {
            return text.len();
        }
        let first = text.len().saturating_sub(self.longest);
        let positions = text
            .char_indices()
            .map(|(position, _)| position)
            .skip_while(|position| *position < first);
        positions
            .into_iter()
            .find(|position| self.begins(text.get(*position..).unwrap_or_default()))
            .unwrap_or(text.len())
    }

    /// Returns `true` if `piece` is a proper prefix of an encoded secret.
    fn begins(&self, piece: &str) -> bool {
        let at = self
            .spellings
            .partition_point(|spelling| spelling.as_str() <= piece);
        self.spellings
            .get(at)
            .is_some_and(|spelling| spelling.starts_with(piece))
    }
}

/// Returns all encodings of a value that are searched for.
fn spellings(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let mut forms = vec![
        value.to_owned(),
        in_json(value),
        value.chars().rev().collect(),
    ];
    forms.extend(
        [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].map(|engine| engine.encode(bytes)),
    );
    forms.extend((0..3).flat_map(|before| {
        [STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|kind| aligned_digits(&kind, bytes, before))
    }));
    let lower: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    forms.push(lower.to_uppercase());
    forms.push(lower);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    for encoded in [percent(bytes, is_plain), percent(bytes, |_| false)] {
        forms.push(encoded.replace("%20", "+"));
        forms.push(lower_escapes(&encoded));
        forms.push(encoded);
    }
    forms
}

/// Returns the value as it is written between the quotes of a JSON string.
fn in_json(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(value)
        .to_owned()
}

/// Returns the base64 digits that depend only on the value if it follows `before` bytes (modulo 3)
/// in a longer text.
fn aligned_digits(kind: &impl base64::Engine, value: &[u8], before: usize) -> String {
    let text = kind.encode([&vec![0; before], value].concat());
    let first = (before * 8).div_ceil(6);
    let end = (before + value.len()) * 8 / 6;
    text.get(first..end).unwrap_or_default().to_owned()
}

fn percent(bytes: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    let encode = |byte: &u8| {
        if is_plain(*byte) {
            char::from(*byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    bytes.iter().map(encode).collect()
}

/// Converts the digits after every percent sign to lower case.
fn lower_escapes(encoded: &str) -> String {
    let mut pieces = encoded.split('%');
    let mut lower = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).unwrap_or((piece, ""));
        lower.push('%');
        lower.push_str(&digits.to_lowercase());
        lower.push_str(rest);
    }
    lower
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Words, punctuation that every encoding treats differently, and multi-byte letters.
    const SECRET: &str = "correct/horse+\"battery\" ß";

    fn secrets() -> Secrets {
        Secrets::new([
            SECRET.to_owned(),
            "short".to_owned(),
            "k-12345678".to_owned(),
        ])
    }

    #[test]
    fn redacts_every_encoding_of_a_secret() {
        let bytes = SECRET.as_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for spelling in [
            SECRET.to_owned(),
            serde_json::to_string(SECRET)
                .unwrap()
                .trim_matches('"')
                .to_owned(),
            STANDARD.encode(bytes),
            STANDARD_NO_PAD.encode(bytes),
            URL_SAFE.encode(bytes),
            URL_SAFE_NO_PAD.encode(bytes),
            hex.clone(),
            hex.to_uppercase(),
            "correct%2Fhorse%2B%22battery%22%20%C3%9F".to_owned(),
            "correct%2fhorse%2b%22battery%22%20%c3%9f".to_owned(),
            "correct%2Fhorse%2B%22battery%22+%C3%9F".to_owned(),
            SECRET.chars().rev().collect(),
        ] {
            assert_eq!(
                secrets().redact(&format!("a {spelling} b")),
                "a *** b",
                "{spelling}"
            );
        }
    }

    #[test]
    fn redacts_a_secret_inside_longer_base64() {
        for before in ["", "u:", "me:", "user:"] {
            for after in ["", "x", "xy"] {
                let text = STANDARD.encode(format!("{before}k-12345678{after}"));
                let shown = secrets().redact(&text).into_owned();
                assert!(shown.contains(HIDDEN), "{before}{after}: {shown}");
                let left: usize = shown.split(HIDDEN).map(str::len).sum();
                assert!(left <= text.len() - 12, "{before}{after}: {shown}");
            }
        }
    }

    #[test]
    fn keeps_other_text_and_ignores_short_secrets() {
        let secrets = secrets();
        for text in [
            "",
            "short",
            "correct horse battery",
            "k-1234567",
            "sk-abcdefgh12345678",
            "***",
        ] {
            assert!(
                matches!(secrets.redact(text), Cow::Borrowed(same) if same == text),
                "{text}"
            );
        }
        assert_eq!(Secrets::default().redact("k-12345678"), "k-12345678");
        let value = json!({"k-12345678": ["k-12345678", 1], "a": null});
        assert_eq!(
            secrets.redact_json(&value),
            json!({"***": ["***", 1], "a": null})
        );
        assert_eq!(format!("{secrets:?}"), "Secrets { values: 2, .. }");
    }

    #[test]
    fn ordinary_values_are_not_searched_for() {
        let table = [
            ("password", false),
            ("Changeme", false),
            ("密码密码密码密码", false),
            ("********", false),
            ("1111 1111", false),
            ("pass1234", true),
            ("passWord", true),
            ("open sesame", true),
            ("marmaladejar", true),
        ];
        for (value, expected) in table {
            assert_eq!(is_searched(value), expected, "{value}");
        }
    }

    #[test]
    fn overlapping_secrets_leave_no_part() {
        let secrets = Secrets::new(["abcd-1234-efgh".to_owned(), "1234-efgh-5678".to_owned()]);
        assert_eq!(secrets.redact("x abcd-1234-efgh-5678 y"), "x *** y");
        let mut stream = secrets.stream();
        let shown: Vec<String> = ["x abcd-1234-efgh", "-56", "78 y"]
            .map(|piece| stream.push(piece))
            .into();
        assert_eq!(
            (shown.concat(), stream.finish()),
            ("x *** y".to_owned(), String::new())
        );
    }

    #[test]
    fn clones_share_learned_secrets() {
        let secrets = Secrets::default();
        let other = secrets.clone();
        other.add(["tiny".to_owned(), " refreshed-token\n".to_owned()]);
        assert_eq!(secrets.redact("a refreshed-token tiny"), "a *** tiny");
    }

    #[test]
    fn any_chunking_redacts_like_the_whole_text() {
        let text = format!(
            "k-1 k-12345678k-12345678 {} {SECRET}{} und ß k-1234567",
            STANDARD.encode(SECRET),
            STANDARD_NO_PAD.encode("k-12345678")
        );
        let secrets = secrets();
        let whole = secrets.redact(&text).into_owned();
        let characters: Vec<char> = text.chars().collect();
        for size in 1..=characters.len() {
            let mut stream = secrets.stream();
            let mut seen = String::new();
            for chunk in characters.chunks(size) {
                seen.push_str(&stream.push(&chunk.iter().collect::<String>()));
                assert!(whole.starts_with(&seen), "pieces of {size}: {seen}");
            }
            seen.push_str(&stream.finish());
            assert_eq!(seen, whole, "pieces of {size}");
        }
    }

    #[test]
    fn stream_holds_back_only_possible_prefixes_of_secrets() {
        let mut stream = secrets().stream();
        assert_eq!(stream.push("hello k"), "hello ");
        assert_eq!(stream.push("eep"), "keep");
        assert_eq!(stream.push(" k-12345678 and"), " *** and");
    }
}
