//! Members of a frame, checked against a table.

use serde_json::{Map, Value};

use crate::api::ApiError;
use crate::route::{Field, Kind};

/// The members of a frame, or of a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Params<'a> {
    /// Checks the members. Returns the names of unknown ones, which are ignored.
    pub(crate) fn check(self, fields: &[Field]) -> Result<Vec<String>, ApiError> {
        for field in fields {
            match self.0.get(field.name) {
                None if field.is_needed => {
                    return Err(ApiError::invalid(&format!("{} is missing", field.name)));
                }
                Some(value) if !is_of(value, field.kind) => {
                    return Err(ApiError::invalid(&format!("the type of {}", field.name)));
                }
                _ => {}
            }
        }
        let is_known = |name: &str| fields.iter().any(|field| field.name == name);
        let unknown = self.0.keys().filter(|name| !is_known(name));
        Ok(unknown.cloned().collect())
    }

    pub(crate) fn text(self, key: &str) -> &'a str {
        let text = self.0.get(key).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    /// Returns a number; `None` if it is missing or negative.
    pub(crate) fn number(self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    pub(crate) fn flag(self, key: &str) -> bool {
        self.0.get(key) == Some(&Value::Bool(true))
    }

    pub(crate) fn object(self, key: &str) -> Option<Self> {
        Some(Self(self.0.get(key)?.as_object()?))
    }

    pub(crate) fn list(self, key: &str) -> &'a [Value] {
        let list = self.0.get(key).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }
}

fn is_of(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Text => value.is_string(),
        Kind::Number => value.is_u64(),
        Kind::Flag => value.is_boolean(),
        Kind::Object => value.is_object(),
        Kind::List => value.is_array(),
    }
}
