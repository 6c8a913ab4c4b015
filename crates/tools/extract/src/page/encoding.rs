//! Decodes bodies by their declared encoding.

use encoding_rs::{Encoding, UTF_8};

/// Length of the beginning of a page that is searched for its encoding, in bytes.
const PRELUDE: usize = 2048;

/// Decodes a body by the encoding in the header, or in the page itself, or as UTF-8. `header` is in
/// lower case.
pub(super) fn decoded(body: &[u8], header: &str) -> String {
    let prelude = String::from_utf8_lossy(body.get(..PRELUDE).unwrap_or(body)).to_ascii_lowercase();
    let named = charset_in(header).or_else(|| charset_in(&prelude));
    let encoding = named
        .and_then(|name| Encoding::for_label(name.as_bytes()))
        .unwrap_or(UTF_8);
    encoding.decode(body).0.into_owned()
}

/// Returns the value after `charset=`.
fn charset_in(text: &str) -> Option<String> {
    let (_, after) = text.split_once("charset=")?;
    let name: String = after
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
        .collect();
    (!name.is_empty()).then_some(name)
}
