//! Parameters of a command, checked against a table.

use serde_json::{Map, Value};

use crate::api::ApiError;
use crate::route::{Field, Kind};

/// The parameters of a command, or of a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Params<'a> {
    /// Checks the parameters. Returns the names of unknown ones, which are ignored.
    /// `place` is the path of the parameters in the frame.
    pub(crate) fn check(self, place: &str, fields: &[Field]) -> Result<Vec<String>, ApiError> {
        for field in fields {
            match self.0.get(field.name).filter(|value| !value.is_null()) {
                None if field.is_needed => {
                    let reason = format!("missing field `{place}.{}`", field.name);
                    return Err(ApiError::unreadable(&reason));
                }
                Some(value) if !is_of(value, field.kind) => {
                    let reason = format!("invalid type of `{place}.{}`", field.name);
                    return Err(ApiError::unreadable(&reason));
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
    pub(crate) fn number(self, key: &str) -> Option<usize> {
        let number = self.0.get(key)?.as_u64()?;
        usize::try_from(number).ok()
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
