//! JSON edits that literals cannot express.

use serde_json::Value;

/// Sets a member of an object; does nothing if `object` is not an object.
pub fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}
