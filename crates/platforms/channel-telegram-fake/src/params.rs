//! Parameters of a call, whatever their encoding.

use bytes::Bytes;
use nanobot_testkit::http::Request;
use nanobot_testkit::http::multipart;
use serde_json::{Map, Value};
use url::form_urlencoded;

/// Parameters that are JSON even if all others are text.
const JSON_FIELDS: &[&str] = &[
    "allowed_updates",
    "caption_entities",
    "commands",
    "entities",
    "link_preview_options",
    "media",
    "reaction",
    "reply_markup",
    "reply_parameters",
    "scope",
];
const NUMBERS: &[&str] = &[
    "chat_id",
    "draft_id",
    "limit",
    "max_connections",
    "message_id",
    "message_thread_id",
    "offset",
    "reply_to_message_id",
    "timeout",
];
const FLAGS: &[&str] = &[
    "allow_sending_without_reply",
    "drop_pending_updates",
    "is_big",
    "supports_streaming",
];

/// A file in a multipart body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upload {
    pub(crate) field: String,
    pub(crate) name: String,
    pub(crate) mime: Option<String>,
    pub(crate) bytes: Bytes,
}

#[derive(Debug, Default)]
pub(crate) struct Params {
    pub(crate) values: Map<String, Value>,
    pub(crate) files: Vec<Upload>,
}

impl Params {
    pub(crate) fn of(request: &Request) -> Self {
        let mut params = Self::default();
        for (name, value) in request.query() {
            params.add_text(name, value);
        }
        let content_type = request.header("content-type").unwrap_or_default();
        if content_type.starts_with("application/json") {
            if let Value::Object(map) = request.json() {
                params.values.extend(map);
            }
        } else if content_type.starts_with("application/x-www-form-urlencoded") {
            for (name, value) in form_urlencoded::parse(&request.body).into_owned() {
                params.add_text(name, value);
            }
        } else if let Some(boundary) = multipart::boundary(content_type) {
            for part in multipart::parts(&request.body, boundary) {
                match part.file_name {
                    Some(name) => {
                        let upload = Upload {
                            field: part.field,
                            name,
                            mime: part.mime,
                            bytes: part.bytes,
                        };
                        params.files.push(upload);
                    }
                    None => params.add_text(
                        part.field,
                        String::from_utf8_lossy(&part.bytes).into_owned(),
                    ),
                }
            }
        }
        params
    }

    fn add_text(&mut self, name: String, text: String) {
        let key = name.as_str();
        let typed = JSON_FIELDS.contains(&key) || NUMBERS.contains(&key) || FLAGS.contains(&key);
        let value = if typed {
            serde_json::from_str(&text).ok()
        } else {
            None
        };
        self.values
            .insert(name, value.unwrap_or(Value::String(text)));
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.values
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        let value = self.values.get(key)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    pub(crate) fn json(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.values
            .get(key)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }
}
