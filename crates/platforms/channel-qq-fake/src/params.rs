//! Parameters of a call, checked against its route.

use bytes::Bytes;
use nanobot_testkit::http::{Request, multipart};
use serde_json::{Map, Value, json};

use crate::api::ApiError;
use crate::route::{BodyForm, Field, Kind, Route};

/// The parameters of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    /// The chat in the path.
    pub(crate) target: String,
    pub(crate) query: Map<String, Value>,
    pub(crate) body: Map<String, Value>,
    /// The file of a form: its name and content.
    pub(crate) file: Option<(String, Bytes)>,
}

impl Params {
    /// Reads the parameters of a request, without checking them.
    pub(crate) fn read(route: &Route, target: &str, request: &Request) -> Result<Self, ApiError> {
        let mut params = Self {
            target: target.to_owned(),
            ..Self::default()
        };
        for (name, value) in request.query() {
            params.query.insert(name, Value::String(value));
        }
        let content_type = request.header("content-type").unwrap_or_default();
        let boundary = multipart::boundary(content_type);
        match (route.form, boundary) {
            (BodyForm::Nothing, _) => {}
            (BodyForm::JsonOrForm, Some(boundary)) => {
                for part in multipart::parts(&request.body, boundary) {
                    params.add_part(route, part);
                }
            }
            _ => {
                let Value::Object(body) = request.json() else {
                    return Err(ApiError::malformed("the body is no JSON object"));
                };
                if !content_type.starts_with("application/json") {
                    return Err(ApiError::malformed("the content type is not JSON"));
                }
                params.body = body;
            }
        }
        Ok(params)
    }

    fn add_part(&mut self, route: &Route, part: multipart::FormPart) {
        let mut fields = route.body.iter();
        let is_file = |field: &Field| field.name == part.field && field.kind == Kind::File;
        if fields.any(is_file) {
            let name = part.file_name.unwrap_or_default();
            self.body
                .insert(part.field, json!({"name": name, "size": part.bytes.len()}));
            self.file = Some((name, part.bytes));
        } else {
            let text = String::from_utf8_lossy(&part.bytes).into_owned();
            self.body.insert(part.field, Value::String(text));
        }
    }

    /// Checks the parameters. Returns the names of unknown ones, which QQ ignores.
    pub(crate) fn check(&self, route: &Route) -> Result<Vec<String>, ApiError> {
        let mut unknown = check(&self.query, route.query)?;
        unknown.extend(check(&self.body, route.body)?);
        Ok(unknown)
    }

    pub(crate) fn asked(&self, key: &str) -> &str {
        text(&self.query, key)
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        text(&self.body, key)
    }

    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        self.body.get(key).and_then(Value::as_i64)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.body.get(key) == Some(&Value::Bool(true))
    }

    pub(crate) fn object(&self, key: &str) -> Option<&Value> {
        self.body.get(key).filter(|value| value.is_object())
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn check(given: &Map<String, Value>, fields: &[Field]) -> Result<Vec<String>, ApiError> {
    for field in fields {
        let value = given.get(field.name).filter(|value| !value.is_null());
        match value {
            None if field.is_needed => {
                return Err(ApiError::malformed(&format!("{} is missing", field.name)));
            }
            Some(value) if !is_of(value, field.kind) => {
                let reason = format!("{} has the wrong type", field.name);
                return Err(ApiError::malformed(&reason));
            }
            _ => {}
        }
    }
    let is_known = |name: &str| fields.iter().any(|field| field.name == name);
    let unknown = given.keys().filter(|name| !is_known(name));
    Ok(unknown.cloned().collect())
}

fn is_of(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Text => value.is_string(),
        Kind::Number => value.is_i64(),
        Kind::Flag => value.is_boolean(),
        Kind::Object | Kind::File => value.is_object(),
    }
}
