//! Arguments of a call, whatever their encoding, and the arguments that each method knows.

use nanobot_testkit::http::Request;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::api::ApiError;

/// A method of the Web API.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// `true` for methods that only read: Slack accepts no JSON there.
    asks: bool,
    needs: &'static [&'static str],
    knows: &'static [&'static str],
}

const fn asks(
    name: &'static str,
    needs: &'static [&'static str],
    knows: &'static [&'static str],
) -> Method {
    Method {
        name,
        asks: true,
        needs,
        knows,
    }
}

const fn does(
    name: &'static str,
    needs: &'static [&'static str],
    knows: &'static [&'static str],
) -> Method {
    Method {
        name,
        asks: false,
        needs,
        knows,
    }
}

const METHODS: &[Method] = &[
    does("auth.test", &[], &[]),
    does("apps.connections.open", &[], &[]),
    does("chat.delete", &["channel", "ts"], &[]),
    does(
        "chat.postMessage",
        &["channel"],
        &[
            "text",
            "blocks",
            "thread_ts",
            "metadata",
            "mrkdwn",
            "unfurl_links",
            "unfurl_media",
            "reply_broadcast",
        ],
    ),
    does(
        "chat.update",
        &["channel", "ts"],
        &["text", "blocks", "metadata"],
    ),
    asks(
        "conversations.history",
        &["channel"],
        &[
            "cursor",
            "include_all_metadata",
            "inclusive",
            "latest",
            "limit",
            "oldest",
        ],
    ),
    asks(
        "conversations.list",
        &[],
        &["cursor", "exclude_archived", "limit", "types"],
    ),
    does("conversations.open", &["users"], &["return_im"]),
    asks(
        "conversations.replies",
        &["channel", "ts"],
        &[
            "cursor",
            "include_all_metadata",
            "inclusive",
            "latest",
            "limit",
            "oldest",
        ],
    ),
    does(
        "files.completeUploadExternal",
        &["files"],
        &["channel_id", "thread_ts", "initial_comment"],
    ),
    asks(
        "files.getUploadURLExternal",
        &["filename", "length"],
        &["alt_txt", "snippet_type"],
    ),
    does("reactions.add", &["channel", "name", "timestamp"], &[]),
    does("reactions.remove", &["channel", "name", "timestamp"], &[]),
    asks("users.list", &[], &["cursor", "limit"]),
];
/// Arguments that are JSON even if all others are text.
const JSON_FIELDS: &[&str] = &["blocks", "files", "metadata"];

/// Returns the method of this name.
pub(crate) fn method(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// The checked arguments of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(pub(crate) Map<String, Value>);

impl Params {
    pub(crate) fn of(method: &Method, request: &Request) -> Result<Self, ApiError> {
        let mut params = Self::default();
        for (name, value) in request.query() {
            params.add_text(name, value);
        }
        let content_type = request.header("content-type").unwrap_or_default();
        if content_type.starts_with("application/json") {
            match request.json() {
                Value::Object(map) if method.asks && !map.is_empty() => {
                    return Err(ApiError::because(
                        "invalid_arguments",
                        "this method reads no JSON",
                    ));
                }
                Value::Object(map) => params.0.extend(map),
                _ if request.body.is_empty() => {}
                _ => return Err(ApiError::new("invalid_json")),
            }
        } else if content_type.starts_with("application/x-www-form-urlencoded") {
            for (name, value) in form_urlencoded::parse(&request.body).into_owned() {
                params.add_text(name, value);
            }
        } else if !request.body.is_empty() {
            return Err(ApiError::because("invalid_post_type", content_type));
        }
        params.check(method)?;
        Ok(params)
    }

    fn check(&self, method: &Method) -> Result<(), ApiError> {
        if let Some(missing) = method
            .needs
            .iter()
            .find(|needed| !self.0.contains_key(**needed))
        {
            return Err(ApiError::because(
                "invalid_arguments",
                format!("missing required field: {missing}"),
            ));
        }
        let is_known = |name: &str| method.needs.contains(&name) || method.knows.contains(&name);
        match self.0.keys().find(|name| !is_known(name)) {
            Some(unknown) => Err(ApiError::because(
                "invalid_arguments",
                format!("unknown field: {unknown}"),
            )),
            None => Ok(()),
        }
    }

    fn add_text(&mut self, name: String, text: String) {
        let parsed = if JSON_FIELDS.contains(&name.as_str()) {
            serde_json::from_str(&text).ok()
        } else {
            None
        };
        self.0.insert(name, parsed.unwrap_or(Value::String(text)));
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn given(&self, key: &str) -> Option<&str> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    pub(crate) fn number(&self, key: &str) -> Option<usize> {
        let value = self.0.get(key)?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
        usize::try_from(number).ok()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| {
            *value == Value::Bool(true) || matches!(value.as_str(), Some("true" | "1"))
        })
    }

    pub(crate) fn json(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }
}
