//! MessagePack from an untrusted peer.
//!
//! Decision: one pass over the bytes counts items and estimates the memory of the values before any
//! is built, as [`json`] does for text: an array of a million `nil` takes 30 times the length of
//! its bytes, and a length can promise more than there is. Binary values and extensions have no
//! form in JSON, so a packet with one is refused.

use nanobot_channel::{Value, json};
use serde::Deserialize as _;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 128;
/// Estimated memory of an item, a container of each kind, in bytes, as in [`json`].
const ITEM: usize = 64;
const ARRAY: usize = 128;
const MAP: usize = 640;

/// Writes a value.
///
/// # Errors
/// The reason why it cannot be written.
pub(crate) fn write(value: &Value) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec_named(value).map_err(|error| error.to_string())
}

/// Reads one value, which has to be all there is.
///
/// # Errors
/// The reason why it cannot be read.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, String> {
    check(bytes)?;
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(MAX_DEPTH);
    Value::deserialize(&mut deserializer).map_err(|error| error.to_string())
}

/// Returns an estimate of the memory that a value takes, in bytes. Values from the network are not
/// nested too deep for it.
pub(crate) fn memory(value: &Value) -> usize {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => ARRAY + items.iter().map(memory).sum::<usize>(),
        Value::Object(members) => {
            let members = members.iter();
            MAP + members
                .map(|(name, value)| name.len() + memory(value))
                .sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    ITEM + content
}

/// Checks that the bytes are one value that is not too large.
fn check(bytes: &[u8]) -> Result<(), String> {
    let mut rest = bytes;
    // Items that containers promised.
    let mut missing = 1_usize;
    let mut memory = 0_usize;
    while missing > 0 {
        let (head, tail) = Head::read(rest).ok_or("it ends early, or holds an unknown type")?;
        rest = tail;
        missing -= 1;
        memory = memory.saturating_add(ITEM);
        match head {
            Head::Fixed(length) => rest = rest.get(length..).ok_or("it ends early")?,
            Head::Text(length) => {
                rest = rest.get(length..).ok_or("it ends early")?;
                memory = memory.saturating_add(length);
            }
            Head::Items(count, container) => {
                missing = missing.saturating_add(count);
                memory = memory.saturating_add(container);
            }
        }
        if missing > rest.len() {
            return Err("it promises more than it holds".to_owned());
        }
        if memory > json::MEMORY_LIMIT {
            return Err("it holds more values than are read at once".to_owned());
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err("something follows it".to_owned())
    }
}

/// The beginning of a value.
enum Head {
    /// A number or a constant, of this many further bytes.
    Fixed(usize),
    /// Text of this many bytes.
    Text(usize),
    /// A container of this many items, and its memory.
    Items(usize, usize),
}

impl Head {
    /// Reads the beginning of a value. Returns what follows it; `None` for a type that is not read.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&marker, rest) = bytes.split_first()?;
        let small = usize::from(marker);
        let sized = |width: usize| {
            let (digits, rest) = rest.split_at_checked(width)?;
            let length = digits
                .iter()
                .fold(0_usize, |length, digit| (length << 8) | usize::from(*digit));
            Some((length, rest))
        };
        let text = |width| sized(width).map(|(length, rest)| (Self::Text(length), rest));
        let array = |width| sized(width).map(|(count, rest)| (Self::Items(count, ARRAY), rest));
        let map = |width| sized(width).map(|(count, rest)| (Self::map(count), rest));
        match marker {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Some((Self::Fixed(0), rest)),
            0x80..=0x8f => Some((Self::map(small & 0x0f), rest)),
            0x90..=0x9f => Some((Self::Items(small & 0x0f, ARRAY), rest)),
            0xa0..=0xbf => Some((Self::Text(small & 0x1f), rest)),
            0xcc | 0xd0 => Some((Self::Fixed(1), rest)),
            0xcd | 0xd1 => Some((Self::Fixed(2), rest)),
            0xca | 0xce | 0xd2 => Some((Self::Fixed(4), rest)),
            0xcb | 0xcf | 0xd3 => Some((Self::Fixed(8), rest)),
            0xd9 => text(1),
            0xda => text(2),
            0xdb => text(4),
            0xdc => array(2),
            0xdd => array(4),
            0xde => map(2),
            0xdf => map(4),
            // Binary values, extensions, and the type that is never used.
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => None,
        }
    }

    fn map(count: usize) -> Self {
        // A B-tree node has room for eleven members.
        let memory = MAP.saturating_mul(1 + count / 6);
        Self::Items(count.saturating_mul(2), memory)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_survive_a_round_trip() {
        let long = "語".repeat(70_000);
        let value = json!({
            "": null, "a": [true, false, 0, 127, 128, 65_536, u64::MAX], "b": [-1, -33, i64::MIN, 1.5],
            "c": {"d": long, "e": "x".repeat(40), "f": "y".repeat(300)}, "g": vec![0; 70_000],
        });
        assert_eq!(read(&write(&value).unwrap()).unwrap(), value);
    }

    #[test]
    fn lengths_that_lie_are_refused_before_anything_is_built() {
        let table: &[&[u8]] = &[
            &[],
            &[0xdd, 0xff, 0xff, 0xff, 0xff],
            &[0xdf, 0xff, 0xff, 0xff, 0xff],
            &[0xdb, 0xff, 0xff, 0xff, 0xff, b'x'],
            &[0xdc, 0x00],
            &[0x92, 0xc0],
            &[0x81, 0xa1, b'k'],
            &[0xcf, 0x00],
            &[0xc0, 0xc0],
        ];
        for bytes in table {
            assert!(read(bytes).is_err(), "{bytes:02x?}");
        }
    }

    #[test]
    fn types_without_a_form_are_refused() {
        let table: &[&[u8]] = &[
            &[0xc1],
            &[0xc4, 0x00],
            &[0xc7, 0x00, 0x01],
            &[0xd4, 0x01, 0x00],
            // A key that is no text, and text that is none.
            &[0x81, 0x01, 0x02],
            &[0xa1, 0xff],
        ];
        for bytes in table {
            assert!(read(bytes).is_err(), "{bytes:02x?}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        let mut deep = vec![0x91; MAX_DEPTH + 10];
        deep.push(0xc0);
        assert!(read(&deep).is_err());
        let mut wide = vec![0xdd, 0x00, 0x80, 0x00, 0x00];
        wide.resize(wide.len() + 0x0080_0000, 0xc0);
        assert_eq!(
            read(&wide).unwrap_err(),
            "it holds more values than are read at once"
        );
        let mut maps = vec![0xdd, 0x00, 0x10, 0x00, 0x00];
        maps.resize(maps.len() + 0x0010_0000, 0x80);
        assert!(read(&maps).is_err());
        // As deep as JSON may be.
        let mut fine = vec![0x91; 100];
        fine.push(0xc0);
        assert!(read(&fine).is_ok());
    }
}
