//! Redacts secrets in text by name and pattern.
//!
//! Decision: when in doubt, redact. A value is redacted because of its name (`apiKey: …`,
//! `Authorization: Bearer …`), because of a prefix of issued keys, or because it looks
//! machine-generated: long, with mixed letters and digits. UUIDs, digests of usual lengths, public
//! keys, certificates and inline media are kept unless a name marks them: they are frequent in logs,
//! and a report without them is useless. In the lines of a log, the ids of a `sender` and a `chat`
//! are kept, too, although they look machine-generated on many platforms: an operator copies them
//! into the rules of access. Redaction is idempotent.

use crate::HIDDEN;

/// Words that mark a name as that of a secret.
const SECRET_WORDS: [&str; 9] = [
    "token",
    "secret",
    "passw",
    "passphrase",
    "credential",
    "authorization",
    "bearer",
    "cookie",
    "apikey",
];

/// Prefixes of issued keys, case-sensitive.
const KEY_PREFIXES: [&str; 24] = [
    "sk-",
    "pk-",
    "rk_",
    "sk_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "nvapi-",
    "gsk_",
    "hf_",
    "xai-",
    "pplx-",
    "tvly-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
];

/// Names of the fields of a log that contain ids of a platform.
const ID_FIELDS: [&str; 2] = ["sender", "chat"];

/// Name of a provider that begins like a key of its vendor, alone or before the name of a model.
const PROVIDER: &str = "xai-grok";

/// Minimum length of a key after its prefix, in characters.
const KEY_LENGTH: usize = 8;

/// Minimum length of a token that has letters and digits. The shorter length applies to tokens with
/// letters of both cases.
const TOKEN_LENGTH: usize = 32;
const MIXED_TOKEN_LENGTH: usize = 24;

/// Maximum length of a position after the UUID of a turn, in digits.
const POSITION_LENGTH: usize = 10;

/// Minimum length of a word after `Bearer` that is taken for a token and not for prose.
const BEARER_LENGTH: usize = 20;

/// Maximum number of passes over a text. Text with secrets usually takes two.
const MAX_PASSES: usize = 8;

/// Lengths of digests in hexadecimal: SHA-1, SHA-256, SHA-384, SHA-512. MD5 is missing, because its
/// length is also that of the keys of many services.
const DIGEST_LENGTHS: [usize; 4] = [40, 64, 96, 128];

/// Beginnings of digests and public keys in base64.
const PUBLIC_PREFIXES: [&str; 7] = [
    "sha1-",
    "sha256-",
    "sha384-",
    "sha512-",
    "AAAAB3NzaC1",
    "AAAAC3NzaC1",
    "AAAAE2VjZHNhL",
];

/// Kinds of PEM blocks that contain no secret.
const PUBLIC_BLOCKS: [&str; 3] = ["CERTIFICATE", "PUBLIC KEY", "CERTIFICATE REQUEST"];

/// Kinds of media whose inline data is kept.
const MEDIA: [&str; 4] = ["image/", "audio/", "video/", "font/"];

/// URL parts that make the whole URL a secret, because anyone who knows it can post there.
const WEBHOOKS: [&str; 2] = ["hooks.slack.com/", "/api/webhooks/"];

/// Returns `true` for a text that begins like an issued key, of whatever length.
#[must_use]
pub fn begins_like_key(text: &str) -> bool {
    let rest = text.strip_prefix(PROVIDER);
    let is_provider = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !is_provider && KEY_PREFIXES.iter().any(|start| text.starts_with(start))
}

/// Replaces every secret in `text` by [`HIDDEN`]. Idempotent.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    repeated(text, Names::Decide)
}

/// Replaces secrets of a known form by [`HIDDEN`]: issued keys, passwords in URLs, private keys,
/// tokens after `Bearer`, machine-generated words. Names decide nothing, so that the fields of a log
/// line stay as they are; those of a person and a chat are kept unless they begin like an issued
/// key. Idempotent.
#[must_use]
pub fn without_issued_keys(text: &str) -> String {
    repeated(text, Names::Ignore)
}

/// Use of the names before values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Decide,
    Ignore,
}

fn repeated(text: &str, names: Names) -> String {
    let mut before = text.to_owned();
    // Redacting a key may expose the password of a URL to the next pass.
    for _ in 0..MAX_PASSES {
        let after = hide_in(&without_passwords(&without_private_keys(&before)), names);
        if after == before {
            break;
        }
        before = after;
    }
    before
}

/// Returns `true` if `name` is that of a secret. A token count (`maxTokens`) and a bare `key` are
/// not.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let flat: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let counts = flat.ends_with("tokens");
    !counts
        && (flat.ends_with("key") && flat != "key"
            || SECRET_WORDS.iter().any(|word| flat.contains(word)))
}

/// Redacts private keys in PEM format. A truncated one is redacted to the end of the text.
fn without_private_keys(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, begun)) = rest.split_once("-----BEGIN ") {
        output.push_str(before);
        if begun
            .split("-----")
            .next()
            .is_some_and(|kind| kind.ends_with("PRIVATE KEY"))
        {
            output.push_str(HIDDEN);
            let end = begun
                .split_once("-----END ")
                .and_then(|(_, end)| end.split_once("-----"));
            rest = end.map_or("", |(_, after)| after);
        } else {
            output.push_str("-----BEGIN ");
            rest = begun;
        }
    }
    output.push_str(rest);
    output
}

/// Redacts the passwords in URLs, but keeps the user names, and redacts webhook URLs as a whole.
fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut output = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        output.push_str("://");
        let ends =
            |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\' | ')');
        let address = part.split(ends).next().unwrap_or_default();
        if WEBHOOKS.iter().any(|hook| address.contains(hook)) {
            output.push_str(HIDDEN);
            output.push_str(part.strip_prefix(address).unwrap_or_default());
            continue;
        }
        let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                if let Some((name, _)) = user.split_once(':') {
                    output.push_str(name);
                    output.push(':');
                }
                output.push_str(HIDDEN);
                output.push('@');
                output.push_str(host);
                output.push_str(part.strip_prefix(authority).unwrap_or_default());
            }
            None => output.push_str(part),
        }
    }
    output
}

/// Redacts secrets word by word. Words are separated by spaces, quotes and other punctuation.
fn hide_in(text: &str, names: Names) -> String {
    let mut output = String::with_capacity(text.len());
    let mut reader = TextRedactor {
        rest: text,
        names,
        named: Expectation::No,
        is_escaped: false,
        media: Media::No,
    };
    while let Some(piece) = reader.next_piece() {
        output.push_str(&piece);
    }
    output
}

/// Expectation of a secret, after the text read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation {
    No,
    /// After the name of a secret.
    Name,
    /// After the name and `:` or `=`: the next word is the secret.
    Value,
    /// After `Bearer`, in prose or before a secret: the next word decides.
    Scheme,
    /// After the name of a field with an id.
    IdName,
    /// In the value of such a field, up to the next space.
    Id,
}

/// Progress within the head of a data URI, `image/png;base64,`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    No,
    /// After the media type.
    Type,
    /// After `base64`.
    Encoding,
    /// After the comma: the next word is the data.
    Data,
}

struct TextRedactor<'a> {
    rest: &'a str,
    names: Names,
    named: Expectation,
    /// `true` if the last character was a backslash.
    is_escaped: bool,
    media: Media,
}

impl<'a> TextRedactor<'a> {
    fn next_piece(&mut self) -> Option<String> {
        let first = self.rest.chars().next()?;
        let is_escaped = std::mem::replace(&mut self.is_escaped, first == '\\');
        if self.named != Expectation::Value
            && let Some(block) = public_block(self.rest)
        {
            self.rest = self.rest.get(block.len()..).unwrap_or_default();
            return Some(block.to_owned());
        }
        if let Some(colour) = colour_sequence(self.rest) {
            self.rest = self.rest.get(colour.len()..).unwrap_or_default();
            return Some(colour.to_owned());
        }
        if is_word(first) {
            let word = self.take_while(is_word);
            let is_data = self.media == Media::Data;
            self.media = match self.media {
                Media::Type if word == "base64" => Media::Encoding,
                _ if MEDIA.iter().any(|kind| word.starts_with(kind)) => Media::Type,
                _ => Media::No,
            };
            if is_data && self.named == Expectation::No {
                return Some(word.to_owned());
            }
            return Some(self.word(word));
        }
        self.media = match (self.media, first) {
            (Media::Type, ';') => Media::Type,
            (Media::Encoding, ',') => Media::Data,
            _ => Media::No,
        };
        if self.named == Expectation::Value && matches!(first, '"' | '\'') {
            return Some(self.quoted(first, is_escaped));
        }
        let mut end = self.rest.chars();
        end.next();
        self.rest = end.as_str();
        self.named = match (self.named, first) {
            (Expectation::No, _) => Expectation::No,
            (Expectation::IdName, ':' | '=') => Expectation::Id,
            (Expectation::IdName, '"' | '\\') => Expectation::IdName,
            (Expectation::Id, ':' | '=' | '"' | '\\') => Expectation::Id,
            (Expectation::IdName | Expectation::Id, _) => Expectation::No,
            (_, ':' | '=') => Expectation::Value,
            (named, ' ' | '"' | '\'' | '\\') => named,
            _ => Expectation::No,
        };
        Some(first.to_string())
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = match self.rest.find(|c| !wanted(c)) {
            Some(end) => self.rest.split_at(end),
            None => (self.rest, ""),
        };
        self.rest = rest;
        taken
    }

    fn word(&mut self, word: &str) -> String {
        let is_scheme = matches!(word.to_ascii_lowercase().as_str(), "bearer" | "basic");
        match std::mem::replace(&mut self.named, Expectation::No) {
            // In `Authorization: Bearer …` the scheme is not part of the secret.
            Expectation::Value if is_scheme => {
                self.named = Expectation::Value;
                word.to_owned()
            }
            // A reference to a variable is not secret.
            Expectation::Value
                if word.starts_with('$') && !word.contains(|c: char| c.is_lowercase()) =>
            {
                word.to_owned()
            }
            Expectation::Value => HIDDEN.to_owned(),
            Expectation::Scheme
                if word.contains(|c: char| c.is_ascii_digit()) || word.len() >= BEARER_LENGTH =>
            {
                HIDDEN.to_owned()
            }
            Expectation::Id => {
                self.named = Expectation::Id;
                let shown = if is_issued_key(word) { HIDDEN } else { word };
                shown.to_owned()
            }
            Expectation::Scheme | Expectation::Name | Expectation::IdName | Expectation::No => {
                if self.names == Names::Ignore && ID_FIELDS.contains(&word) {
                    self.named = Expectation::IdName;
                } else if is_scheme {
                    self.named = Expectation::Scheme;
                } else if self.names == Names::Decide && is_secret_name(word) && !looks_secret(word)
                {
                    self.named = Expectation::Name;
                }
                hidden_word(word)
            }
        }
    }

    /// Redacts a quoted value after the name of a secret. If the opening quote is escaped, the text
    /// is JSON within a string, and the closing quote is escaped, too.
    fn quoted(&mut self, quote: char, is_escaped: bool) -> String {
        let mut inside = self.rest.chars();
        inside.next();
        let mut last = '\0';
        let closing = inside.as_str().char_indices().find(|(_, c)| {
            let closes = *c == quote && (last == '\\') == is_escaped;
            last = *c;
            closes
        });
        let value = closing.and_then(|(place, _)| inside.as_str().split_at_checked(place));
        let Some((value, after)) = value else {
            // Truncated: read the rest as words.
            self.rest = inside.as_str();
            return quote.to_string();
        };
        self.named = Expectation::No;
        self.rest = after.strip_prefix(quote).unwrap_or(after);
        let end = if is_escaped { "\\" } else { "" };
        let value = if value == end { "" } else { HIDDEN };
        format!("{quote}{value}{end}{quote}")
    }
}

/// Returns `true` for letters, digits and the punctuation of keys, URLs and paths.
fn is_word(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(
            c,
            '_' | '-' | '.' | '/' | '+' | '%' | '*' | '@' | '~' | '$' | '!'
        )
}

/// Redacts the secrets in a word.
fn hidden_word(word: &str) -> String {
    if PUBLIC_PREFIXES.iter().any(|start| word.starts_with(start)) {
        return word.to_owned();
    }
    let is_model = word.starts_with(PROVIDER) && !begins_like_key(word);
    if !is_model && looks_secret(word) {
        return HIDDEN.to_owned();
    }
    let pieces: Vec<&str> = word
        .split('/')
        .map(|piece| if looks_secret(piece) { HIDDEN } else { piece })
        .collect();
    pieces.join("/")
}

/// Returns the PEM block without a secret at the beginning of a text. Its lines have to be base64.
fn public_block(text: &str) -> Option<&str> {
    let (kind, body) = text.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    let (body, end) = body.split_once("-----END ")?;
    let after = end.strip_prefix(kind)?.strip_prefix("-----")?;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let is_plain = body.chars().all(|c| is_base64(c) || c.is_whitespace());
    (PUBLIC_BLOCKS.contains(&kind) && is_plain)
        .then(|| text.strip_suffix(after))
        .flatten()
}

/// Returns the sequence at the beginning of a text that sets the colour of a terminal. It is no
/// part of the words around it.
fn colour_sequence(text: &str) -> Option<&str> {
    let (numbers, after) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    let is_number = |c: char| c.is_ascii_digit() || c == ';';
    numbers
        .chars()
        .all(is_number)
        .then(|| text.strip_suffix(after))
        .flatten()
}

/// Returns `true` for a digest in lower-case hexadecimal.
fn is_digest(word: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    DIGEST_LENGTHS.contains(&word.len()) && word.bytes().all(is_digit)
}

/// Returns `true` for a UUID, the form of request and turn ids.
fn is_uuid(word: &str) -> bool {
    let is_hex = |part: &str| part.chars().all(|c| c.is_ascii_hexdigit());
    word.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && word.split('-').all(is_hex)
}

/// Returns `true` for the key of a message to a chat: the UUID of its turn, a slash and a number.
fn is_message_key(word: &str) -> bool {
    let is_position = |text: &str| {
        (1..=POSITION_LENGTH).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    word.split_once('/')
        .is_some_and(|(turn, position)| is_uuid(turn) && is_position(position))
}

/// Returns `true` for a word with the prefix of issued keys, and as long as one.
fn is_issued_key(word: &str) -> bool {
    let is_issued = |prefix: &str| {
        word.strip_prefix(prefix)
            .is_some_and(|rest| rest.chars().count() >= KEY_LENGTH)
    };
    KEY_PREFIXES.into_iter().any(is_issued)
}

fn looks_secret(word: &str) -> bool {
    if is_issued_key(word) {
        return true;
    }
    let has = |wanted: fn(&char) -> bool| word.chars().any(|c| wanted(&c));
    if !has(char::is_ascii_digit) || !word.is_ascii() {
        return false;
    }
    if is_uuid(word) || is_message_key(word) || is_digest(word) {
        return false;
    }
    let (lower, upper) = (has(char::is_ascii_lowercase), has(char::is_ascii_uppercase));
    let wanted = if lower && upper {
        MIXED_TOKEN_LENGTH
    } else {
        TOKEN_LENGTH
    };
    // Paths are long too, but consist of short names.
    let pieces = word.split(['/', '.']).count();
    (lower || upper) && word.len() >= wanted && word.len() / pieces >= wanted.min(16)
}
