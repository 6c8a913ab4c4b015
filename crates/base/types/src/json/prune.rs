//! Takes oversized parts out of the text of a JSON value, before it is parsed.
//!
//! An answer of a server holds events of many people. One event that cannot be parsed within the
//! limits must not make the others unreadable, because the server would repeat the same answer.

use super::byte_cost;

/// Depth from which values are left out; serde_json reads 128 levels.
const MAX_DEPTH: usize = 100;

/// Returns `text` with `null` in place of
///
/// - arrays and objects nested deeper than 100 levels, and
/// - arrays and objects that are the value of a member called `member`, if their values would take
///   more than `limit` bytes, by [`MemoryEstimate`](super::MemoryEstimate). A member whose name has
///   an escape counts as called so.
///
/// Works without recursion. Invalid JSON stays invalid.
#[must_use]
pub fn prune(text: &[u8], member: &str, limit: usize) -> Vec<u8> {
    let mut pruner = Pruner {
        kept: Vec::with_capacity(text.len()),
        member: member.as_bytes(),
        limit,
        ..Pruner::default()
    };
    for byte in text {
        pruner.add(*byte);
    }
    pruner.kept
}

#[derive(Debug, Default)]
struct Pruner<'a> {
    kept: Vec<u8>,
    member: &'a [u8],
    limit: usize,
    /// Estimated memory of what was kept.
    cost: usize,
    open: Vec<Open>,
    /// Open levels within a value that is left out.
    left_out: usize,
    in_string: bool,
    is_escaped: bool,
    /// Where the last string began, behind its quotation mark.
    string_at: usize,
    /// `true` if the next value is that of a bounded member.
    is_bounded: bool,
}

/// An open array or object.
#[derive(Clone, Copy, Debug)]
struct Open {
    at: usize,
    cost: usize,
    is_bounded: bool,
}

impl Pruner<'_> {
    fn add(&mut self, byte: u8) {
        let is_in_string = self.in_string;
        if is_in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
        } else if byte == b'"' {
            self.in_string = true;
        }
        if self.left_out > 0 {
            match byte {
                b'[' | b'{' if !is_in_string => self.left_out += 1,
                b']' | b'}' if !is_in_string => self.left_out -= 1,
                _ => {}
            }
            return;
        }
        if !is_in_string && matches!(byte, b'[' | b'{') {
            self.begin(byte);
            return;
        }
        self.keep(byte, is_in_string);
        match byte {
            _ if is_in_string => {}
            b'"' => self.string_at = self.kept.len(),
            b':' => self.is_bounded = self.is_bounded_member(),
            b',' => self.is_bounded = false,
            b']' | b'}' => self.end(),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8, is_in_string: bool) {
        self.kept.push(byte);
        self.cost += if is_in_string { 1 } else { byte_cost(byte) };
    }

    fn begin(&mut self, byte: u8) {
        let is_bounded = std::mem::take(&mut self.is_bounded);
        if self.open.len() >= MAX_DEPTH {
            self.left_out = 1;
            self.kept.extend_from_slice(b"null");
            return;
        }
        self.open.push(Open {
            at: self.kept.len(),
            cost: self.cost,
            is_bounded,
        });
        self.keep(byte, false);
    }

    fn end(&mut self) {
        let Some(open) = self.open.pop() else {
            return;
        };
        if open.is_bounded && self.cost - open.cost > self.limit {
            self.kept.truncate(open.at);
            self.kept.extend_from_slice(b"null");
            self.cost = open.cost;
        }
    }

    /// `true` if the last string is the name of a bounded member.
    fn is_bounded_member(&self) -> bool {
        let name = self.kept.get(self.string_at..).unwrap_or_default();
        let end = name.iter().position(|byte| *byte == b'"');
        let name = name.get(..end.unwrap_or(name.len())).unwrap_or_default();
        name == self.member || name.contains(&b'\\')
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pruned(text: &str) -> String {
        String::from_utf8(prune(text.as_bytes(), "content", 2000)).unwrap()
    }

    #[test]
    fn ordinary_text_is_kept_byte_for_byte() {
        for text in [
            r#"{"events": [{"content": {"body": "a \"b\" \\ [{", "n": [1, 2.5e3, null]}}], "x": {}}"#,
            "[1, \"content\", {\"content\": \"text\"}]",
            "\"content\"",
            "",
        ] {
            assert_eq!(pruned(text), text);
        }
    }

    #[test]
    fn oversized_members_become_null() {
        let large: Vec<Value> = vec![json!({"": 0}); 10];
        let text = json!({
            "events": [{"content": large, "n": 1}, {"content": {"body": "hi"}}], "other": large,
        });
        let mut expected = text.clone();
        expected["events"][0]["content"] = Value::Null;
        let found: Value = serde_json::from_str(&pruned(&text.to_string())).unwrap();
        assert_eq!(found, expected);
        let hidden = text.to_string().replace("content", "\\u0063ontent");
        let found: Value = serde_json::from_str(&pruned(&hidden)).unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn deep_values_become_null() {
        let deep = format!("{}\"]\"{}", "[".repeat(300), "]".repeat(300));
        let text = format!(r#"{{"a": {deep}, "b": [{{"content": {deep}}}], "c": 1}}"#);
        let found: Value = serde_json::from_str(&pruned(&text)).unwrap();
        assert_eq!(found["c"], 1);
        let mut level = &found["a"];
        let mut depth = 0;
        while let Some(inner) = level.get(0) {
            level = inner;
            depth += 1;
        }
        assert_eq!((depth, level), (99, &Value::Null));
    }

    #[test]
    fn invalid_text_stays_invalid() {
        for text in [
            "]",
            "[}",
            "{\"content\": [",
            "[[[\"",
            "\\\"",
            "{\"content\"::[}]",
        ] {
            assert!(
                serde_json::from_str::<Value>(&pruned(text)).is_err(),
                "{text}"
            );
        }
        let open = "[".repeat(200_000);
        assert!(serde_json::from_str::<Value>(&pruned(&open)).is_err());
    }
}
