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

/// Replaces what is deeper than [`MAX_DEPTH`] by `null`.
pub(crate) fn prune(value: &mut Value) {
    prune_below(value, 1);
}

fn prune_below(value: &mut Value, depth: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => *value = Value::Null,
        Value::Array(items) => {
            for item in items {
                prune_below(item, depth + 1);
            }
        }
        Value::Object(fields) => {
            for item in fields.values_mut() {
                prune_below(item, depth + 1);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
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

    #[test]
    fn only_the_depth_is_pruned() {
        let mut value = nested(MAX_DEPTH - 1);
        prune(&mut value);
        assert_eq!(value, nested(MAX_DEPTH - 1));
        let mut value = json!({ "kept": [1, "a"], "deep": nested(1000) });
        prune(&mut value);
        assert!(is_flat(&value));
        assert_eq!(value["kept"], json!([1, "a"]));
        assert!(value["deep"]["b"]["b"].is_object());
    }
}
