//! The exact values of the secrets that are in use, in every spelling they are likely to take.
//!
//! Decision: [`without_secrets`](crate::without_secrets) hides by name and look, which misses a password made of words
//! and hides innocent hashes; for logs and bundles that is right. What a model reads and people
//! are sent must stay intact otherwise, so there only exact values are searched for: as they are,
//! inside JSON, in base64 at any alignment, in hexadecimal, percent-encoded, and reversed. One
//! automaton finds all of them in one pass.
//!
//! Values under [`SHORTEST`] characters are not searched for: they would hide ordinary words.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use crate::HIDDEN;

/// The fewest characters of a value that is searched for.
pub const SHORTEST: usize = 8;

/// The secrets of a running program. Clones share them.
///
/// Grows only: a token that was replaced stays hidden until the program ends, because replies and
/// results that hold it may still be under way.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<RwLock<Arc<Known>>>,
}

impl Secrets {
    /// These values; those under [`SHORTEST`] characters are left out.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self {
            known: Arc::new(RwLock::new(Arc::new(Known::new(
                long_enough(values).collect(),
            )))),
        }
    }

    /// Adds values, for a configuration that is followed and tokens that are refreshed.
    pub fn learn(&self, values: impl IntoIterator<Item = String>) {
        let values: BTreeSet<String> = long_enough(values).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !values.is_subset(&known.values) {
            *known = Arc::new(Known::new(known.values.union(&values).cloned().collect()));
        }
    }

    /// The text with every secret replaced by [`HIDDEN`].
    #[must_use]
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.known().hide(text)
    }

    /// The same for every text and every key of a value.
    #[must_use]
    pub fn hide_in(&self, value: &Value) -> Value {
        self.known().hide_in(value)
    }

    /// A filter for a text that arrives in pieces.
    #[must_use]
    pub fn stream(&self) -> SecretStream {
        SecretStream {
            known: self.known(),
            held: String::new(),
        }
    }

    fn known(&self) -> Arc<Known> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for Secrets {
    /// Shows how many there are and no value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("values", &self.known().values.len())
            .finish_non_exhaustive()
    }
}

fn long_enough(values: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let trimmed = values.into_iter().map(|value| value.trim().to_owned());
    trimmed.filter(|value| value.chars().count() >= SHORTEST)
}

/// Hides secrets in a text that arrives in pieces: the end of what came is held back while it may
/// be the beginning of a secret.
pub struct SecretStream {
    known: Arc<Known>,
    held: String,
}

impl SecretStream {
    /// The part of the text so far that is certain and was not returned before.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let (shown, rest) = self
            .known
            .hide_up_to(&self.held, self.known.undecided(&self.held));
        let kept = self.held.get(rest..).unwrap_or_default().to_owned();
        self.held = kept;
        shown
    }

    /// The rest, when the text has ended.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.known.hide(&rest).into_owned()
    }
}

impl fmt::Debug for SecretStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretStream").finish_non_exhaustive()
    }
}

/// A set of values with all their spellings. Complete when built.
#[derive(Default)]
struct Known {
    values: BTreeSet<String>,
    /// Sorted.
    spellings: Vec<String>,
    longest: usize,
    /// `None` where there is nothing to search for.
    search: Option<AhoCorasick>,
}

impl Known {
    fn new(values: BTreeSet<String>) -> Self {
        let spellings: BTreeSet<String> =
            values.iter().flat_map(|value| spellings(value)).collect();
        let spellings: Vec<String> = spellings.into_iter().collect();
        let longest = spellings.iter().map(String::len).max().unwrap_or_default();
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&spellings);
        // Fails only beyond 2^31 states.
        let search = search.ok().filter(|_| !spellings.is_empty());
        Self {
            values,
            spellings,
            longest,
            search,
        }
    }

    fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.search {
            Some(search) if search.is_match(text) => {
                Cow::Owned(self.hide_up_to(text, text.len()).0)
            }
            _ => Cow::Borrowed(text),
        }
    }

    fn hide_in(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.hide(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.hide_in(item)).collect(),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(name, value)| (self.hide(name).into_owned(), self.hide_in(value)))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The text before `end` with secrets hidden, and the place up to which it was read: `end`, or
    /// the end of a secret that begins before it.
    fn hide_up_to(&self, text: &str, end: usize) -> (String, usize) {
        let mut shown = String::with_capacity(end);
        let mut read = 0;
        for found in self.search.iter().flat_map(|search| search.find_iter(text)) {
            if found.start() >= end {
                break;
            }
            shown.push_str(text.get(read..found.start()).unwrap_or_default());
            shown.push_str(HIDDEN);
            read = found.end();
        }
        if read < end {
            shown.push_str(text.get(read..end).unwrap_or_default());
            read = end;
        }
        (shown, read)
    }

    /// The place from which the text is the beginning of a spelling that has not ended; its length
    /// where there is none.
    fn undecided(&self, text: &str) -> usize {
        let first = text.len().saturating_sub(self.longest);
        let places = text
            .char_indices()
            .map(|(place, _)| place)
            .skip_while(|place| *place < first);
        places
            .into_iter()
            .find(|place| self.begins(text.get(*place..).unwrap_or_default()))
            .unwrap_or(text.len())
    }

    /// `true` if `piece` begins a spelling that is longer.
    fn begins(&self, piece: &str) -> bool {
        let at = self
            .spellings
            .partition_point(|spelling| spelling.as_str() <= piece);
        self.spellings
            .get(at)
            .is_some_and(|spelling| spelling.starts_with(piece))
    }
}

/// Every form of a value that is searched for.
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
        [STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|kind| inside(&kind, bytes, before))
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

/// The value between the quotes of a JSON text.
fn in_json(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(value)
        .to_owned()
}

/// The digits of base64 that only the value decides when `before` bytes precede it in a longer
/// text, modulo 3.
fn inside(kind: &impl base64::Engine, value: &[u8], before: usize) -> String {
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

/// The same with lower-case digits behind every percent sign.
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

    /// Words, marks that every encoding treats differently, and letters of several bytes.
    const SECRET: &str = "correct/horse+\"battery\" ß";

    fn secrets() -> Secrets {
        Secrets::new([
            SECRET.to_owned(),
            "short".to_owned(),
            "k-12345678".to_owned(),
        ])
    }

    #[test]
    fn every_spelling_is_hidden() {
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
                secrets().hide(&format!("a {spelling} b")),
                "a *** b",
                "{spelling}"
            );
        }
    }

    #[test]
    fn base64_of_a_longer_text_hides_the_secret_in_it() {
        for before in ["", "u:", "me:", "user:"] {
            for after in ["", "x", "xy"] {
                let text = STANDARD.encode(format!("{before}k-12345678{after}"));
                let shown = secrets().hide(&text).into_owned();
                assert!(shown.contains(HIDDEN), "{before}{after}: {shown}");
                let left: usize = shown.split(HIDDEN).map(str::len).sum();
                assert!(left <= text.len() - 12, "{before}{after}: {shown}");
            }
        }
    }

    #[test]
    fn what_is_no_secret_stays_and_short_values_are_not_searched_for() {
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
                matches!(secrets.hide(text), Cow::Borrowed(same) if same == text),
                "{text}"
            );
        }
        assert_eq!(Secrets::default().hide("k-12345678"), "k-12345678");
        let value = json!({"k-12345678": ["k-12345678", 1], "a": null});
        assert_eq!(
            secrets.hide_in(&value),
            json!({"***": ["***", 1], "a": null})
        );
        assert_eq!(format!("{secrets:?}"), "Secrets { values: 2, .. }");
    }

    #[test]
    fn what_is_learned_is_hidden_in_every_clone() {
        let secrets = Secrets::default();
        let other = secrets.clone();
        other.learn(["tiny".to_owned(), " refreshed-token\n".to_owned()]);
        assert_eq!(secrets.hide("a refreshed-token tiny"), "a *** tiny");
    }

    #[test]
    fn any_chunking_shows_what_the_whole_text_shows() {
        let text = format!(
            "k-1 k-12345678k-12345678 {} {SECRET}{} und ß k-1234567",
            STANDARD.encode(SECRET),
            STANDARD_NO_PAD.encode("k-12345678")
        );
        let secrets = secrets();
        let whole = secrets.hide(&text).into_owned();
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
    fn only_what_may_become_a_secret_is_held_back() {
        let mut stream = secrets().stream();
        assert_eq!(stream.push("hello k"), "hello ");
        assert_eq!(stream.push("eep"), "keep");
        assert_eq!(stream.push(" k-12345678 and"), " *** and");
    }
}
