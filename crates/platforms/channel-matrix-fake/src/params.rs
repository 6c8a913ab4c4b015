//! Parameters of a call, checked against its route.

use bytes::Bytes;
use nanobot_testkit::http::Request;
use serde_json::{Map, Value};

use crate::api::ApiError;
use crate::route::{Body, Field, Kind, Route};

/// The parameters of a call, and its caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    /// The user; empty without a token.
    pub(crate) user: String,
    /// The device; empty without a token.
    pub(crate) device: String,
    /// Path of the request, as it was sent.
    pub(crate) place: String,
    /// Decoded variable segments of the path.
    pub(crate) path: Vec<String>,
    pub(crate) query: Map<String, Value>,
    pub(crate) body: Map<String, Value>,
    pub(crate) bytes: Bytes,
    pub(crate) content_type: String,
}

impl Params {
    /// Reads the parameters of a request, without the caller.
    pub(crate) fn read(
        route: &Route,
        path: Vec<String>,
        request: &Request,
    ) -> Result<Self, ApiError> {
        let body = match route.body {
            Body::Nothing | Body::Bytes => Map::new(),
            Body::Optional(_) if request.body.is_empty() => Map::new(),
            Body::Fields(_) | Body::Optional(_) | Body::Object => read_object(request)?,
        };
        let query = request.query().into_iter();
        let content_type = request.header("content-type").unwrap_or_default();
        Ok(Self {
            place: request.path().to_owned(),
            path,
            query: query.map(|(key, value)| (key, value.into())).collect(),
            body,
            bytes: request.body.clone(),
            content_type: content_type.to_owned(),
            ..Self::default()
        })
    }

    /// Checks the parameters. Returns the names of unknown ones, which homeservers ignore.
    pub(crate) fn check(&self, route: &Route) -> Result<Vec<String>, ApiError> {
        let mut unknown = check_fields(route.query, &self.query, true)?;
        if let Body::Fields(fields) | Body::Optional(fields) = route.body {
            unknown.extend(check_fields(fields, &self.body, false)?);
        }
        Ok(unknown)
    }

    /// Returns a variable segment of the path; empty if the route has fewer.
    pub(crate) fn segment(&self, index: usize) -> &str {
        self.path.get(index).map_or("", String::as_str)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key).and_then(Value::as_str)
    }

    pub(crate) fn queried(&self, key: &str) -> Option<&str> {
        self.query.get(key).and_then(Value::as_str)
    }

    /// Returns a number of the query.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.queried(key)?.parse().ok()
    }

    /// Returns an object of the body; empty if there is none.
    pub(crate) fn object(&self, key: &str) -> Map<String, Value> {
        let object = self.body.get(key).and_then(Value::as_object);
        object.cloned().unwrap_or_default()
    }

    /// Checks that a user id in the path is the caller's.
    pub(crate) fn check_user(&self, user: &str) -> Result<(), ApiError> {
        if user == self.user {
            return Ok(());
        }
        Err(ApiError::forbidden("Another user's data"))
    }
}

fn read_object(request: &Request) -> Result<Map<String, Value>, ApiError> {
    match serde_json::from_slice(&request.body) {
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(ApiError::new(400, "M_BAD_JSON", "Content must be a JSON object").clumsy()),
        Err(_) => Err(ApiError::new(400, "M_NOT_JSON", "Content not JSON").clumsy()),
    }
}

fn check_fields(
    fields: &[Field],
    given: &Map<String, Value>,
    is_query: bool,
) -> Result<Vec<String>, ApiError> {
    for field in fields {
        match given.get(field.name) {
            None if field.is_needed => {
                let message = format!("Missing parameter {}", field.name);
                return Err(ApiError::new(400, "M_MISSING_PARAM", message).clumsy());
            }
            Some(value) if !field.kind.admits(value, is_query) => {
                return Err(ApiError::malformed(format!("{} is invalid", field.name)));
            }
            _ => {}
        }
    }
    let is_known = |name: &str| fields.iter().any(|field| field.name == name);
    let unknown = given.keys().filter(|name| !is_known(name));
    Ok(unknown.cloned().collect())
}

impl Kind {
    /// Returns `true` if a value is of this kind. Values of a query are texts.
    fn admits(self, value: &Value, is_query: bool) -> bool {
        if let (true, Some(text)) = (is_query, value.as_str()) {
            return match self {
                Self::Number => text.parse::<u64>().is_ok(),
                Self::Flag => matches!(text, "true" | "false"),
                Self::OneOf(words) => words.contains(&text),
                _ => true,
            };
        }
        match self {
            Self::Text => value.is_string(),
            Self::Number => value.is_u64(),
            Self::Flag => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
            Self::Any => true,
            Self::OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        }
    }
}
