//! Parses untrusted JSON within a memory limit.
//!
//! Decision: the memory of the parsed values is estimated in one pass over the bytes before any
//! value is built. As values, `[[],[],…` takes ten times the length of its text and `[{"":0},…` a
//! hundred times, so a limit on the length alone bounds neither. The depth is bounded by serde_json
//! (128 levels). A leading byte order mark is skipped.

mod prune;

use serde::Deserialize;
use serde::de::Error as _;

pub use prune::prune;

/// Maximum estimated memory of the values of one text, in bytes.
pub const MEMORY_LIMIT: usize = 16 << 20;

/// Maximum length of a response body that is read, in bytes.
pub const BODY_LIMIT: usize = 8 << 20;

/// The UTF-8 byte order mark, which some programs write first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Estimates the memory of JSON values from the bytes of their text, fed in pieces of any size.
///
/// It counts the size of `serde_json::Value` on 64-bit platforms. Typed values with fewer fields
/// take less.
#[derive(Clone, Debug, Default)]
pub struct MemoryEstimate {
    bytes: usize,
    in_string: bool,
    is_escaped: bool,
}

impl MemoryEstimate {
    /// Adds the next `piece` of the text.
    pub fn add(&mut self, piece: &[u8]) {
        let mut bytes = self.bytes;
        for byte in piece {
            if self.in_string {
                bytes += 1;
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            bytes += byte_cost(*byte);
            self.in_string = *byte == b'"';
        }
        self.bytes = bytes;
    }

    /// Returns the estimate for the text added so far, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns the estimated memory of a byte outside of strings, or of the string that it begins.
const fn byte_cost(byte: u8) -> usize {
    match byte {
        // A B-tree node has room for eleven members.
        b'{' => 640,
        // A vector starts with room for four items and doubles.
        b'[' => 128,
        b',' | b':' => 64,
        b'"' => 24,
        _ => 1,
    }
}

/// Parses a string like [`from_slice`].
///
/// # Errors
/// Same as [`from_slice`].
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check(text.as_bytes())?;
    serde_json::from_str(text)
}

/// Parses bytes whose values take at most [`MEMORY_LIMIT`].
///
/// # Errors
/// Returns an error if serde_json does, or if the values would take more memory. The latter is
/// reported before any value is built.
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    check(bytes)?;
    serde_json::from_slice(bytes)
}

fn check(bytes: &[u8]) -> serde_json::Result<()> {
    let mut estimate = MemoryEstimate::default();
    for piece in bytes.chunks(64 << 10) {
        estimate.add(piece);
        if estimate.bytes() > MEMORY_LIMIT {
            return Err(serde_json::Error::custom(
                "it holds more values than are read at once",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn parses_json_with_or_without_a_byte_order_mark() {
        let expected = json!({"a": [1, "\"{[,"], "b": {"c": null}});
        for text in [expected.to_string(), format!("\u{feff}{expected}")] {
            assert_eq!(from_str::<Value>(&text).unwrap(), expected);
            assert_eq!(from_slice::<Value>(text.as_bytes()).unwrap(), expected);
        }
        let long = Value::String("{[,:".repeat(1_000_000));
        assert_eq!(from_str::<Value>(&long.to_string()).unwrap(), long);
    }

    #[test]
    fn rejects_too_many_values() {
        for unit in [
            "[],",
            "{},",
            "0,",
            "\"\",",
            "{\"\":0},",
            "[[[0]]],",
            "\"\\\"\",",
        ] {
            let text = format!("[{}0]", unit.repeat((8 << 20) / unit.len()));
            let error = from_str::<Value>(&text).unwrap_err().to_string();
            assert_eq!(
                error, "it holds more values than are read at once",
                "{unit}"
            );
        }
    }

    #[test]
    fn rejects_deep_nesting_without_recursion() {
        let text = "[".repeat(4 << 16);
        assert!(from_str::<Value>(&text).is_err());
    }

    #[test]
    fn chunked_estimate_equals_the_whole() {
        let text = r#"{"a\"{": ["x,\\", {"b": 1}], "c": "["}"#.as_bytes();
        let mut whole = MemoryEstimate::default();
        whole.add(text);
        let mut pieces = MemoryEstimate::default();
        text.iter().for_each(|byte| pieces.add(&[*byte]));
        assert_eq!(pieces.bytes(), whole.bytes());
    }
}
