//! Access to JSON of any shape.

use serde_json::{Map, Value};

/// Returns a text of an object; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a member of an object; `Null` if there is none.
pub(crate) fn member(object: &Value, key: &str) -> Value {
    object.get(key).cloned().unwrap_or_default()
}

/// Returns the members of an object; none of another value.
pub(crate) fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Sets a value within nested objects. Objects on the path are added, and replace other values.
pub(crate) fn put(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let mut place = object;
    for key in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(members) = place else {
            return;
        };
        place = members.entry(*key).or_insert(Value::Null);
    }
    *place = value.into();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_put_into_nested_objects() {
        let mut object = json!({"a": {"b": 1}, "c": 2});
        put(&mut object, &["a", "d"], 3);
        put(&mut object, &["c", "e", "f"], "x");
        let expected = json!({"a": {"b": 1, "d": 3}, "c": {"e": {"f": "x"}}});
        assert_eq!(object, expected);
    }
}
