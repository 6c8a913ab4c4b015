//! The depth of JSON values.

use serde_json::Value;

/// Maximum depth of a value that is sent to the program. The reader of JSON there accepts 128
/// levels, with those of the request.
pub(crate) const MAX_DEPTH: usize = 100;

/// Returns `true` if `value` has at most [`MAX_DEPTH`] levels.
pub(crate) fn is_flat(value: &Value) -> bool {
    let mut rest = vec![(value, 1)];
    while let Some((value, depth)) = rest.pop() {
        if depth > MAX_DEPTH {
            return false;
        }
        match value {
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => rest.extend(fields.values().map(|item| (item, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (1..depth).fold(json!({}), |inner, _| json!({ "a": [], "b": inner }))
    }

    #[test]
    fn depth_is_limited() {
        assert!(is_flat(&json!("a")));
        assert!(is_flat(&nested(MAX_DEPTH - 1)));
        assert!(!is_flat(&nested(MAX_DEPTH + 1)));
    }
}
