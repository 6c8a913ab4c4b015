//! Events as JSON.

use matrix_sdk_common::ruma::serde::Raw;
use serde_json::{Value, value::to_raw_value};

/// Returns an object as the JSON of an event or its content; `None` for another value.
pub(crate) fn raw<T>(value: &Value) -> Option<Raw<T>> {
    value.as_object()?;
    to_raw_value(value).ok().map(Raw::from_json)
}
