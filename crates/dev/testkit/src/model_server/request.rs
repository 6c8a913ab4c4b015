//! A recorded request, with accessors for scripts.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::http::Request;

/// The cache mark in compact JSON, after or before another member of its block. It does not match
/// inside a text, because quotes are escaped there.
const CACHE_MARKS: [&str; 2] = [
    r#","cache_control":{"type":"ephemeral"}"#,
    r#""cache_control":{"type":"ephemeral"},"#,
];

/// The parts of a body that a prompt cache covers, unparsed.
#[derive(Deserialize)]
struct RawBody<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, alias = "instructions")]
    system: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "input")]
    messages: Vec<&'a RawValue>,
}

/// API that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelApi {
    /// `POST …/chat/completions`.
    OpenAi,
    /// `POST …/responses`.
    Responses,
    /// `POST …/messages`.
    Anthropic,
}

/// A completion request as it arrived.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The API, determined by the path.
    pub api: ModelApi,
    /// Path, headers and the body's exact bytes.
    pub http: Request,
    /// The body; `Null` if it was not JSON.
    pub json: Value,
}

impl ModelRequest {
    pub(super) fn new(api: ModelApi, http: Request) -> Self {
        let json = http.json();
        Self { api, http, json }
    }

    /// Returns `true` if a stream was requested.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.json
            .get("stream")
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    /// Returns the requested model.
    #[must_use]
    pub fn model(&self) -> &str {
        self.json
            .get("model")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the messages, without the system prompt for Anthropic; the input items of Responses.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        let member = match self.api {
            ModelApi::Responses => "input",
            ModelApi::OpenAi | ModelApi::Anthropic => "messages",
        };
        self.json
            .get(member)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Returns the system prompt as one text; empty if there is none.
    #[must_use]
    pub fn system(&self) -> String {
        match self.api {
            ModelApi::Responses => self
                .json
                .get("instructions")
                .map(text_of)
                .unwrap_or_default(),
            ModelApi::Anthropic => self.json.get("system").map(text_of).unwrap_or_default(),
            ModelApi::OpenAi => {
                let first = self
                    .messages()
                    .first()
                    .filter(|message| role(message) == "system");
                first
                    .and_then(|message| message.get("content"))
                    .map(text_of)
                    .unwrap_or_default()
            }
        }
    }

    /// Returns the text of the newest user message that is not only tool results; empty if there is
    /// none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let users = self
            .messages()
            .iter()
            .rev()
            .filter(|message| role(message) == "user");
        let mut texts = users
            .filter_map(|message| message.get("content"))
            .map(text_of);
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Returns the outputs of the tool results after the newest assistant message, in order. The
    /// list is empty if the request opens a turn, so a script can distinguish between calling a
    /// tool and reporting its result.
    #[must_use]
    pub fn tool_results(&self) -> Vec<String> {
        let newest = self
            .messages()
            .rsplit(|message| role(message) == "assistant" || kind(message) == "function_call")
            .next()
            .unwrap_or_default();
        newest.iter().flat_map(results_of).collect()
    }

    /// Returns the input of the vendor's prompt cache, each element as its exact bytes without
    /// cache marks: the tools, then the system prompt, then the messages. A request hits the cache
    /// if the previous request's prompt is a prefix of its own.
    #[must_use]
    pub fn prompt(&self) -> Vec<String> {
        let Ok(body) = serde_json::from_slice::<RawBody<'_>>(&self.http.body) else {
            return Vec::new();
        };
        let elements = body
            .tools
            .into_iter()
            .chain(body.system)
            .chain(body.messages);
        elements
            .map(|element| {
                CACHE_MARKS
                    .iter()
                    .fold(element.get().to_owned(), |text, mark| {
                        text.replace(mark, "")
                    })
            })
            .collect()
    }

    /// Returns the names of the offered tools, in order.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self
            .json
            .get("tools")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        tools
            .filter_map(|tool| {
                tool.pointer("/function/name")
                    .or_else(|| tool.get("name"))?
                    .as_str()
            })
            .collect()
    }
}

pub(super) fn role(message: &Value) -> &str {
    message
        .get("role")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn kind(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn results_of(message: &Value) -> Vec<String> {
    let content = message.get("content").unwrap_or(&Value::Null);
    if kind(message) == "function_call_output" {
        return vec![message.get("output").map(text_of).unwrap_or_default()];
    }
    if role(message) == "tool" {
        return vec![text_of(content)];
    }
    let blocks = content.as_array().into_iter().flatten();
    let results =
        blocks.filter(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"));
    results
        .map(|block| block.get("content").map(text_of).unwrap_or_default())
        .collect()
}

/// Returns the text of a content: a string, or its text blocks joined by newlines.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter_map(|block| block.get("text")?.as_str())
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
