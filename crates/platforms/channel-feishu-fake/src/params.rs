//! Parameters of a call, checked against its route.

use bytes::Bytes;
use nanobot_testkit::http::{Request, multipart};
use serde_json::{Map, Value, json};

use crate::api::ApiError;
use crate::route::{BodyForm, Field, Kind, Route};

/// The parameters of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    /// Variables of the path, in order.
    ids: Vec<String>,
    pub(crate) query: Map<String, Value>,
    pub(crate) body: Map<String, Value>,
    /// The file of a form: its name and content.
    pub(crate) file: Option<(String, Bytes)>,
}

impl Params {
    /// Reads the parameters of a request, without checking them.
    pub(crate) fn read(
        route: &Route,
        ids: Vec<String>,
        request: &Request,
    ) -> Result<Self, ApiError> {
        let mut params = Self {
            ids,
            ..Self::default()
        };
        for (name, value) in request.query() {
            params.query.insert(name, Value::String(value));
        }
        let content_type = request.header("content-type").unwrap_or_default();
        match route.form {
            BodyForm::Nothing => {}
            BodyForm::Json => {
                let Value::Object(body) = request.json() else {
                    return Err(malformed("the body is no JSON object"));
                };
                // Feishu's own client names no type when it asks for a token.
                if !content_type.is_empty() && !content_type.starts_with("application/json") {
                    return Err(malformed("the content type is not application/json"));
                }
                params.body = body;
            }
            BodyForm::Multipart => {
                let Some(boundary) = multipart::boundary(content_type) else {
                    return Err(malformed("the content type is not multipart/form-data"));
                };
                for part in multipart::parts(&request.body, boundary) {
                    params.add_part(route, part);
                }
            }
        }
        Ok(params)
    }

    fn add_part(&mut self, route: &Route, part: multipart::FormPart) {
        let mut fields = route.body.iter();
        if fields.any(|field| field.name == part.field && field.kind == Kind::File) {
            let name = part.file_name.unwrap_or_default();
            self.body
                .insert(part.field, json!({"size": part.bytes.len()}));
            self.file = Some((name, part.bytes));
        } else if !part.bytes.is_empty() {
            // Feishu's own client sends parameters without a value as empty parts.
            let text = String::from_utf8_lossy(&part.bytes).into_owned();
            self.body.insert(part.field, Value::String(text));
        }
    }

    /// Checks the parameters. Returns the names of unknown ones, which Feishu ignores.
    pub(crate) fn check(&self, route: &Route) -> Result<Vec<String>, ApiError> {
        let mut unknown = check(&self.query, route.query, true)?;
        let is_text = route.form == BodyForm::Multipart;
        unknown.extend(check(&self.body, route.body, is_text)?);
        Ok(unknown)
    }

    /// Returns a variable of the path.
    pub(crate) fn id(&self, index: usize) -> &str {
        self.ids.get(index).map_or("", String::as_str)
    }

    pub(crate) fn asked(&self, key: &str) -> &str {
        text(&self.query, key)
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        text(&self.body, key)
    }

    pub(crate) fn given(&self, key: &str) -> Option<&str> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        self.body.get(key)?.as_i64()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.body.get(key) == Some(&Value::Bool(true))
    }

    pub(crate) fn object(&self, key: &str) -> &Value {
        self.body.get(key).unwrap_or(&Value::Null)
    }
}

fn malformed(reason: &str) -> ApiError {
    ApiError::of_field("body", reason)
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn check(
    given: &Map<String, Value>,
    fields: &[Field],
    is_text: bool,
) -> Result<Vec<String>, ApiError> {
    for field in fields {
        match given.get(field.name).filter(|value| !value.is_null()) {
            None if field.is_needed => {
                let description = format!("{} is required", field.name);
                return Err(ApiError::of_field(field.name, &description));
            }
            Some(value) if !is_of(value, field.kind, is_text) => {
                return Err(ApiError::of_field(field.name, "wrong type"));
            }
            _ => {}
        }
    }
    let is_known = |name: &str| fields.iter().any(|field| field.name == name);
    Ok(given
        .keys()
        .filter(|name| !is_known(name))
        .cloned()
        .collect())
}

fn is_of(value: &Value, kind: Kind, is_text: bool) -> bool {
    match kind {
        Kind::Text => value.is_string(),
        Kind::Number if is_text => value
            .as_str()
            .is_some_and(|text| text.parse::<i64>().is_ok()),
        Kind::Number => value.is_i64(),
        Kind::Flag => value.is_boolean(),
        Kind::Object | Kind::File => value.is_object(),
    }
}
