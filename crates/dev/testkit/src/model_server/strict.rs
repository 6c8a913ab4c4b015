//! Request validation as strict as the vendors'.
//!
//! The rules are the documented ones plus those that only some vendors apply (unique ids in the
//! whole transcript, arguments that parse), because a client has to satisfy them all.

mod anthropic;
mod openai;
mod responses;

use std::collections::BTreeSet;

use serde_json::Value;

use super::{ModelApi, ModelRequest};

/// Returns all problems of a request; the first is the one that the vendor would report.
pub(super) fn problems(request: &ModelRequest) -> Vec<String> {
    let mut found = Problems::default();
    if !request.json.is_object() {
        return vec!["the body is not a JSON object".to_owned()];
    }
    if request.model().is_empty() {
        found.add("model: missing");
    }
    if request.messages().is_empty() {
        found.add("messages: at least one is required");
    }
    match request.api {
        ModelApi::OpenAi => openai::check(request, &mut found),
        ModelApi::Responses => responses::check(request, &mut found),
        ModelApi::Anthropic => anthropic::check(request, &mut found),
    }
    found.list
}

#[derive(Default)]
struct Problems {
    list: Vec<String>,
    call_ids: BTreeSet<String>,
    tool_names: BTreeSet<String>,
}

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        self.list.push(problem.into());
    }

    fn require(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.list.push(problem());
        }
    }

    fn call_id(&mut self, place: &str, id: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        self.require(
            (1..=64).contains(&id.len()) && id.chars().all(plain),
            || format!("{place}: {id:?} is no tool call id"),
        );
        let is_new = self.call_ids.insert(id.to_owned());
        self.require(is_new, || {
            format!("{place}: tool call id {id:?} is used twice")
        });
    }

    fn tool_name(&mut self, place: &str, name: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let valid = (1..=64).contains(&name.len()) && name.chars().all(plain);
        self.require(valid, || format!("{place}: {name:?} is no tool name"));
    }

    fn tool(&mut self, place: &str, name: &str, schema: Option<&Value>) {
        self.tool_name(place, name);
        let is_new = self.tool_names.insert(name.to_owned());
        self.require(is_new, || {
            format!("{place}: tool {name:?} is offered twice")
        });
        let is_object = schema
            .and_then(|schema| schema.get("type"))
            .and_then(Value::as_str)
            == Some("object");
        self.require(is_object, || {
            format!("{place}: the schema's type must be object")
        });
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
