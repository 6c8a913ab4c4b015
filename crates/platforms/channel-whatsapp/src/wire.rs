//! Members of the protocol's objects, as far as they are used.
//!
//! Decision: read leniently. A member that is missing and one of another type are the same.

use nanobot_channel::Value;

/// Returns a text of an object that is not blank.
pub(crate) fn given<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    let text = value.get(key).and_then(Value::as_str);
    text.filter(|text| !text.trim().is_empty())
}

/// Returns a text of an object, or an empty one.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    given(value, key).unwrap_or_default()
}

/// Returns a number of an object that is not negative.
pub(crate) fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

/// `true` if a member of an object is `true`.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the elements of a list in an object.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Returns the first characters of a text, and a mark if there are more.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let mut shown: String = text.chars().take(limit).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_of_another_type_count_as_missing() {
        let value = json!({"a": 5, "b": " ", "c": "x", "d": -1, "e": "true", "f": true, "g": [1]});
        assert_eq!((text(&value, "a"), given(&value, "b")), ("", None));
        assert_eq!((text(&value, "c"), number(&value, "a")), ("x", Some(5)));
        assert_eq!((number(&value, "d"), number(&value, "c")), (None, None));
        assert_eq!((flag(&value, "e"), flag(&value, "f")), (false, true));
        assert_eq!((list(&value, "g").len(), list(&value, "a").len()), (1, 0));
        for value in [json!(null), json!([]), json!("a")] {
            assert_eq!((text(&value, "a"), list(&value, "a").len()), ("", 0));
        }
    }

    #[test]
    fn long_text_is_shortened_between_characters() {
        assert_eq!(shortened("語語語", 2), "語語...");
        assert_eq!(shortened("語語", 2), "語語");
    }
}
