//! The little of JSON editing that literals cannot express.

use serde_json::Value;

/// Sets a member; does nothing to what is no object.
pub(crate) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}
