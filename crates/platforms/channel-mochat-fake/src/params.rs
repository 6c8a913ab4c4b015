//! Parameters of a call, checked against its route.

use serde_json::{Map, Value};

use crate::api::ApiError;
use crate::route::{Kind, Route};

/// The parameters of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(pub(crate) Map<String, Value>);

impl Params {
    /// Checks the parameters. Returns the names of unknown ones, which Mochat ignores.
    pub(crate) fn check(&self, route: &Route) -> Result<Vec<String>, ApiError> {
        for field in route.fields {
            match self.0.get(field.name) {
                None if field.is_needed => {
                    return Err(ApiError::malformed(format!("{} is required", field.name)));
                }
                Some(value) if !is_of(value, field.kind) => {
                    return Err(ApiError::malformed(format!("{} is invalid", field.name)));
                }
                _ => {}
            }
        }
        let is_known = |name: &str| route.fields.iter().any(|field| field.name == name);
        let unknown = self.0.keys().filter(|name| !is_known(name));
        Ok(unknown.cloned().collect())
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        let text = self.0.get(key).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    pub(crate) fn given(&self, key: &str) -> Option<String> {
        let text = self.0.get(key).and_then(Value::as_str);
        text.map(str::to_owned)
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// Returns a number of items; `usual` if there is none.
    pub(crate) fn limit(&self, usual: usize) -> usize {
        let number = self.number("limit");
        number.map_or(usual, |number| usize::try_from(number).unwrap_or(usual))
    }

    pub(crate) fn ids(&self, key: &str) -> Vec<String> {
        let list = self.0.get(key).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    /// Returns the cursors by session.
    pub(crate) fn cursors(&self) -> Map<String, Value> {
        let cursors = self.0.get("cursors").and_then(Value::as_object);
        cursors.cloned().unwrap_or_default()
    }
}

fn is_of(value: &Value, kind: Kind) -> bool {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    match kind {
        Kind::Text => is_text(value),
        Kind::Number(least, most) => value
            .as_i64()
            .is_some_and(|number| (least..=most).contains(&number)),
        Kind::Ids => value.as_array().is_some_and(|all| all.iter().all(is_text)),
        Kind::Cursors => value
            .as_object()
            .is_some_and(|all| all.values().all(Value::is_u64)),
    }
}
