//! Reads JSON from outside within bounds of memory.
//!
//! Decision: the memory of the values is estimated in one pass over the bytes before any is built.
//! `[[],[],…` takes ten times its own length as values and `[{"":0},…` a hundred times; a limit on
//! the length alone bounds neither. The depth is bounded by serde_json (128 levels). A byte order
//! mark at the start is skipped.

use serde::Deserialize;
use serde::de::Error as _;

/// The most memory that the values of one text may take, estimated, in bytes.
pub const MEMORY_LIMIT: usize = 16 << 20;

/// The longest body of an answer that is worth reading, in bytes.
pub const BODY_LIMIT: usize = 8 << 20;

/// The mark that some programs write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Estimates the memory of JSON values from the bytes of their text, in pieces of any size.
///
/// Counts what `serde_json::Value` takes on 64 bits. A type of fewer fields takes less.
#[derive(Clone, Debug, Default)]
pub struct MemoryEstimate {
    bytes: usize,
    in_string: bool,
    is_escaped: bool,
}

impl MemoryEstimate {
    /// Adds the values of the next `piece` of a text.
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
            bytes += match byte {
                // A node of a B-tree has room for eleven members.
                b'{' => 640,
                // A list begins with room for four items, and doubles it.
                b'[' => 128,
                b',' | b':' => 64,
                b'"' => {
                    self.in_string = true;
                    24
                }
                _ => 1,
            };
        }
        self.bytes = bytes;
    }

    /// The estimate for what was added so far.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Reads a text as [`from_slice`] does.
///
/// # Errors
/// As [`from_slice`].
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check(text.as_bytes())?;
    serde_json::from_str(text)
}

/// Reads bytes whose values take at most [`MEMORY_LIMIT`].
///
/// # Errors
/// As serde_json, and before anything is built when the values would take more than that.
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
    fn what_is_ordinary_is_read_with_or_without_a_byte_order_mark() {
        let expected = json!({"a": [1, "\"{[,"], "b": {"c": null}});
        for text in [expected.to_string(), format!("\u{feff}{expected}")] {
            assert_eq!(from_str::<Value>(&text).unwrap(), expected);
            assert_eq!(from_slice::<Value>(text.as_bytes()).unwrap(), expected);
        }
        let long = Value::String("{[,:".repeat(1_000_000));
        assert_eq!(from_str::<Value>(&long.to_string()).unwrap(), long);
    }

    #[test]
    fn more_values_than_fit_are_refused() {
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
    fn a_level_too_deep_is_refused_without_recursion() {
        let text = "[".repeat(4 << 16);
        assert!(from_str::<Value>(&text).is_err());
    }

    #[test]
    fn pieces_count_as_the_whole() {
        let text = r#"{"a\"{": ["x,\\", {"b": 1}], "c": "["}"#.as_bytes();
        let mut whole = MemoryEstimate::default();
        whole.add(text);
        let mut pieces = MemoryEstimate::default();
        text.iter().for_each(|byte| pieces.add(&[*byte]));
        assert_eq!(pieces.bytes(), whole.bytes());
    }
}
